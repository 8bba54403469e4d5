"""What can be recorded along a path, by name, and the events in it."""

from engram.observables._events import NEVER as NEVER
from engram.observables._events import SPIKE_FACTOR as SPIKE_FACTOR
from engram.observables._events import Events as Events
from engram.observables._folds import Folds as Folds
from engram.observables._names import OBSERVABLES as OBSERVABLES
from engram.observables._names import AbstractObservable as AbstractObservable
from engram.observables._names import Observable as Observable
from engram.observables._names import make_observable as make_observable
from engram.observables._names import stability_gap as stability_gap
from engram.observables._record import Record as Record
from engram.observables._record import make_record as make_record
from engram.observables._series import events_of_series as events_of_series
