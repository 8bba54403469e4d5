"""What is to be remembered: embeddings, how often each token comes, and its target."""

from engram.problem._bigrams import Bigrams as Bigrams
from engram.problem._bigrams import count_bigrams as count_bigrams
from engram.problem._bigrams import shakespeare as shakespeare
from engram.problem._embeddings import as_key as as_key
from engram.problem._embeddings import canonical_rows as canonical_rows
from engram.problem._embeddings import gaussian_rows as gaussian_rows
from engram.problem._embeddings import orthonormal_rows as orthonormal_rows
from engram.problem._embeddings import rows_with_gram as rows_with_gram
from engram.problem._embeddings import sphere_rows as sphere_rows
from engram.problem._families import from_file as from_file
from engram.problem._families import from_gram as from_gram
from engram.problem._families import from_text as from_text
from engram.problem._families import gaussian as gaussian
from engram.problem._families import on_sphere as on_sphere
from engram.problem._families import one_hot as one_hot
from engram.problem._families import orthonormal as orthonormal
from engram.problem._families import two_tokens as two_tokens
from engram.problem._frequencies import count_pairs as count_pairs
from engram.problem._frequencies import uniform as uniform
from engram.problem._frequencies import zipf as zipf
from engram.problem._functions import check_problem as check_problem
from engram.problem._functions import function_of as function_of
from engram.problem._names import show_name as show_name
from engram.problem._problem import Problem as Problem
from engram.problem._storage import one_line as one_line
from engram.problem._storage import read_npz as read_npz
