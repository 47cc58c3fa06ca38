"""The one exception that a user is meant to read."""


class MedgrpoError(Exception):
    """Bad input or a bad option: its message says what is wrong, where, and what to do, in one line.

    The command line and the recipes print it on standard error and exit with status 2; anything else that
    is raised is a defect of the program and keeps its traceback.
    """
