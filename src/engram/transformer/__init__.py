"""The simplified transformer: induction heads as associative memories, trained on the bigram task."""

from engram.transformer._bigrams import Bigrams as Bigrams
from engram.transformer._bigrams import count_bigrams as count_bigrams
from engram.transformer._bigrams import shakespeare as shakespeare
from engram.transformer._config import MATRICES as MATRICES
from engram.transformer._config import Config as Config
from engram.transformer._memories import Memory as Memory
from engram.transformer._memories import attention_patterns as attention_patterns
from engram.transformer._memories import causal_margins as causal_margins
from engram.transformer._memories import induction_scores as induction_scores
from engram.transformer._memories import memories as memories
from engram.transformer._model import Layer as Layer
from engram.transformer._model import Model as Model
from engram.transformer._model import make_model as make_model
from engram.transformer._model import plain_loss as plain_loss
from engram.transformer._model import read as read
from engram.transformer._passes import Passes as Passes
from engram.transformer._prepare import prepare as prepare
from engram.transformer._start import read_sequences as read_sequences
from engram.transformer._start import read_weights as read_weights
from engram.transformer._start import write_start as write_start
from engram.transformer._system import TransformerSystem as TransformerSystem
from engram.transformer._task import Sequences as Sequences
from engram.transformer._task import bigram_task as bigram_task
from engram.transformer._train import Training as Training
from engram.transformer._train import train as train
