"""InputError: input that cannot be used."""


class InputError(ValueError):
    """Input that cannot be used; the message says which argument, what was met and what to do."""
