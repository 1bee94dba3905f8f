"""The native part of the package. Private: import from ``hermes_env_bridge``."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Token as _Token
from os import PathLike
from types import GenericAlias, ModuleType
from typing import Any, ClassVar, Generic, Literal, NoReturn, TypeVar, final, overload

from hermes_env_bridge.children import Decision, Policy
from hermes_env_bridge.credentials import Spawn

_T = TypeVar("_T")
_D = TypeVar("_D")

__version__: str
NON_MESSAGING_SESSION_SURFACES: frozenset[str]
VARIABLES: tuple[tuple[str, str | None], ...]

@final
class SessionVar(Generic[_T]):
    def __new__(cls, *args: Any, **kwargs: Any) -> SessionVar[_T]: ...
    def __hash__(self) -> int: ...
    @property
    def name(self) -> str: ...
    @overload
    def get(self) -> _T: ...
    @overload
    def get(self, default: _D, /) -> _T | _D: ...
    def set(self, value: _T, /) -> SessionToken[_T]: ...
    def reset(self, token: SessionToken[_T] | _Token[_T], /) -> None: ...
    @classmethod
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...
    def __reduce_ex__(self, protocol: Any, /) -> NoReturn: ...

@final
class SessionToken(Generic[_T]):
    MISSING: ClassVar[object]
    def __new__(cls, *_args: Any) -> NoReturn: ...
    @property
    def var(self) -> SessionVar[_T]: ...
    @property
    def old_value(self) -> Any: ...
    def __hash__(self) -> int: ...
    @classmethod
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...
    def __reduce_ex__(self, protocol: Any, /) -> NoReturn: ...

@final
class Slot:
    def __new__(cls) -> Slot: ...
    def collect(self, function: Callable[[], _T]) -> _T: ...

@final
class Declared:
    @property
    def unset(self) -> Any: ...
    @property
    def session(self) -> tuple[SessionVar[Any], ...]: ...
    @property
    def cron_delivery(self) -> tuple[SessionVar[Any], ...]: ...
    @property
    def async_delivery(self) -> SessionVar[Any]: ...
    @property
    def engaged(self) -> bool: ...

@final
class Credentials:
    def __new__(cls, blocked: Sequence[str] = (), *, always: Sequence[str] = ()) -> Credentials: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def is_credential(self, name: str, /) -> bool: ...

@overload
def child_env(
    base: Mapping[str, str] | None = None,
    *,
    policy: Policy = "inherit",
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
    extra: Mapping[str, str] | None = None,
    credentials: Credentials | Spawn | None = None,
    delegated: bool | None = None,
    home: str | PathLike[str] | None = ...,
    cwd: str | PathLike[str] | None = None,
    windows: bool = ...,
    module: ModuleType | None = None,
    explain: Literal[False] = False,
) -> dict[str, str]: ...
@overload
def child_env(
    base: Mapping[str, str] | None = None,
    *,
    policy: Policy = "inherit",
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
    extra: Mapping[str, str] | None = None,
    credentials: Credentials | Spawn | None = None,
    delegated: bool | None = None,
    home: str | PathLike[str] | None = ...,
    cwd: str | PathLike[str] | None = None,
    windows: bool = ...,
    module: ModuleType | None = None,
    explain: Literal[True],
) -> tuple[dict[str, str], tuple[Decision, ...]]: ...
def bound(module: ModuleType, /) -> list[tuple[str, str | None]]: ...
def engaged_of(module: ModuleType, /) -> bool: ...
def plan(
    base: dict[str, str], session: list[tuple[str, str | None]], engaged: bool, spec: Any, /
) -> list[tuple[str, str, str, str | None]]: ...
def check_env(env: dict[str, str], arguments: list[str], windows: bool, /) -> None: ...
def shell_exports(env: dict[str, str], /) -> str: ...
def shell_unset(names: list[str], /) -> str: ...
def owned_names() -> list[str]: ...
def owns(name: str, /) -> bool: ...
def environ() -> dict[str, str] | None: ...
def declare(name: str, /) -> Declared: ...
def bind(
    variables: Iterable[Any], values: Iterable[Any], capability: Any = ..., supported: Any = ..., /
) -> list[Any]: ...
def fill(variables: Iterable[Any], value: Any, capability: Any = ..., stated: Any = ..., /) -> None: ...
def read(variables: Any, name: Any, unset: Any, default: Any, os: ModuleType = ..., /) -> Any: ...
def async_delivery(os: ModuleType, capability: Any, unset: Any, /) -> bool: ...
def is_messaging(surfaces: tuple[Any, ...], listed: Callable[[str], Any], /) -> bool: ...
def explain(
    is_session_variable: bool, state: bool | None, in_environment: bool, engaged: bool, /
) -> tuple[str, str, str, str]: ...
def import_from(module: str, name: str, /) -> Any: ...
def engaged() -> bool: ...
def set_engaged(engaged: bool, /) -> None: ...
def set_live(namespace: dict[str, Any], /) -> None: ...

__all__ = [
    "NON_MESSAGING_SESSION_SURFACES",
    "VARIABLES",
    "Credentials",
    "Declared",
    "SessionToken",
    "SessionVar",
    "Slot",
    "__version__",
    "async_delivery",
    "bind",
    "bound",
    "check_env",
    "child_env",
    "declare",
    "engaged",
    "engaged_of",
    "environ",
    "explain",
    "fill",
    "import_from",
    "is_messaging",
    "owned_names",
    "owns",
    "plan",
    "read",
    "set_engaged",
    "set_live",
    "shell_exports",
    "shell_unset",
]
