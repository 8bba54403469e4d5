"""What can be named in a spec, on the command line, in the explorer and in files; yours too.

Nothing here loads JAX, pydantic or typer: built-ins are literals, and load when they are used.
"""

from engram.registry._entries import KINDS as KINDS
from engram.registry._entries import Entry as Entry
from engram.registry._entries import entries as entries
from engram.registry._entries import find as find
from engram.registry._entries import name_of as name_of
from engram.registry._entries import register as register
from engram.registry._entries import unregister as unregister
from engram.registry._fields import REQUIRED as REQUIRED
from engram.registry._fields import Field as Field
from engram.registry._plugins import load_entry_points as load_entry_points
from engram.registry._plugins import load_origins as load_origins
from engram.registry._plugins import load_plugin as load_plugin
from engram.registry._plugins import origins as origins
from engram.registry._tables import CHOOSERS as CHOOSERS
from engram.registry._tables import all_fields as all_fields
from engram.registry._tables import complete as complete
from engram.registry._tables import entry_of as entry_of
from engram.registry._tables import fields_of as fields_of
from engram.registry._tables import make as make
from engram.registry._tables import names_of as names_of
from engram.registry._tables import option_of as option_of
from engram.registry._tables import read_off as read_off
from engram.registry._tables import table as table
from engram.registry._tables import used_in as used_in
from engram.registry._values import USUAL as USUAL
from engram.registry._values import Fault as Fault
from engram.registry._values import check_table as check_table
from engram.registry._values import near as near
from engram.registry._values import read_table as read_table
