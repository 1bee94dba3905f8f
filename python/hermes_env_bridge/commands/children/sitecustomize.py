"""What makes Python children install the drop-in: ``hermes-env-bridge run --children`` puts its folder on PYTHONPATH.

Every Python that finds that variable runs this, also one that is too old for the package or has not got it. So it is
written for all of them, imports nothing of the package before the session module is asked for, and makes way: for the
``sitecustomize`` that would have been found without it, and on ``sys.path``.
"""

import os
import sys


class Waiting:
    """Installs the drop-in when the session module is first imported, and leaves it to the others to find.

    Not at the start: what is on ``sys.path`` then is not yet what the program will import from, and most children
    import no Hermes.
    """

    waits = True

    # No annotations: Python 2 has none.
    def find_spec(self, name, path=None, target=Ellipsis):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        """Answer the import system, the first time that it asks for the session module."""
        if not self.waits or name not in ("gateway.session_context", "hermes_env_bridge.session_context"):
            return None
        # It stays where it is: to remove it would have the import system, which is at it, skip the next finder.
        self.waits = False
        if target is Ellipsis:
            # The import system gives a target, be it None. This is an install, so the child sees to it itself.
            return None
        try:
            import hermes_env_bridge
        except ImportError:
            return None
        except Exception as error:
            self.tell(name, error)  # type: ignore[no-untyped-call]
            return None
        try:
            hermes_env_bridge.install()
        except hermes_env_bridge.InstallError as error:
            self.tell(name, error)  # type: ignore[no-untyped-call]
        # An install puts the package's own name there, whose import would then take what it finds for loaded.
        sys.modules.pop(name, None)
        found = (finder.find_spec(name, path, target) for finder in sys.meta_path if hasattr(finder, "find_spec"))
        return next((spec for spec in found if spec is not None), None)

    def tell(self, name, error):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        """Say why Hermes' own module has to serve. Where there is no Hermes, there is nothing to tell."""
        if name.startswith("gateway") and sys.stderr:
            sys.stderr.write("hermes-env-bridge: a child runs without the drop-in: %s\n" % error)  # noqa: UP031


if sys.version_info >= (3, 11):  # noqa: UP036
    sys.meta_path.insert(0, Waiting())

sys.path[:] = [folder for folder in sys.path if folder != os.path.dirname(__file__)]
del sys.modules["sitecustomize"]
# The next one. If there is none, the ImportError tells Python so, as it would have without us.
__import__("sitecustomize")
