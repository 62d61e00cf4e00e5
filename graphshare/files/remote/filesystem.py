"""Open fsspec's file system for a URL, and explain its failures. Only this module imports fsspec."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, BinaryIO, Protocol, TypeVar

from graphshare.errors import Fault, GraphshareError, InputError, OutputError, install_command
from graphshare.files.remote.retries import describe_timeout, http_options, s3_options
from graphshare.text.format import shorten
from graphshare.text.markup import quote_shell
from graphshare.text.urls import find_scheme, hide_secrets, list_schemes, redact

T = TypeVar("T")

INSTALL = install_command("remote")
_OWN = frozenset({"http", "https", "s3", "s3a"})
"""Schemes whose packages the extra ``remote`` installs."""
_STATUSES = {
    401: "the server requires a user name and a password (401)",
    403: "the server refuses access (403)",
    404: "does not exist",
    412: "changed while it was being read",
    429: "the server refuses more requests for now (429)",
}
_DOWNLOADS = {"http": "curl -LO {url}", "https": "curl -LO {url}", "ftp": "curl -O {url}", "s3": "aws s3 cp {url} .",
              "gs": "gcloud storage cp {url} .", "hdfs": "hdfs dfs -get {url}"}  # fmt: skip
_CREDENTIALS = (
    "is the address complete, and are the credentials set? Those of s3:// come from the AWS "
    "profile or environment"
)


class FileSystem(Protocol):
    """The used methods of fsspec's ``AbstractFileSystem``; an asynchronous one has a ``loop`` too."""

    def info(self, path: str) -> Mapping[str, Any]: ...
    def ls(self, path: str, detail: bool = ...) -> list[Mapping[str, Any]]: ...
    def find(
        self, path: str, detail: bool = ..., **options: Any
    ) -> Mapping[str, Mapping[str, Any]]: ...
    def cat_file(self, path: str, start: int | None = ..., end: int | None = ...) -> bytes: ...
    def open(self, path: str, mode: str) -> BinaryIO: ...
    def put_file(self, lpath: str, rpath: str, **options: Any) -> None: ...
    def rm_file(self, path: str) -> None: ...
    def invalidate_cache(self, path: str | None = ...) -> None: ...


class RemotePath:
    """A URL, and its ``path`` in the file system that reads it."""

    __slots__ = ("filesystem", "path", "scheme", "url")

    def __init__(self, url: str) -> None:
        self.url, self.scheme = url, find_scheme(url)
        fsspec = _import_fsspec(url)
        try:
            opened = _open_filesystem(fsspec, url)
        except ImportError as error:
            raise InputError(_refuse_missing_package(error, url)) from error
        except ValueError as error:
            known = "s3://, http://, https:// or another scheme of fsspec"
            raise InputError(
                Fault(
                    f"cannot be read: {hide_secrets(_reason(error), url)}",
                    where=url,
                    hint=f"URLs start with {known}",
                )
            ) from error
        except Exception as error:  # an archive is opened here, by code that may raise anything
            raise translate_error(error, url) from error
        self.filesystem: FileSystem = opened[0]
        self.path: str = opened[1]

    @property
    def is_web(self) -> bool:
        return self.scheme in ("http", "https")

    @property
    def is_s3(self) -> bool:
        # The first link of a chain reads: a cache, an archive or a folder does so by itself.
        return list_schemes(self.url)[0] in ("s3", "s3a")

    def run(self, function: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """Run a coroutine function in the thread where fsspec runs its file systems."""
        from fsspec.asyn import sync  # an optional package

        result: T = sync(self.filesystem.loop, function, *arguments)  # type: ignore[attr-defined]
        return result


def _import_fsspec(url: str) -> Any:
    try:
        import fsspec.core  # an optional package
    except ImportError:
        command = _DOWNLOADS.get(find_scheme(url), "").replace("{url}", quote_shell(url))
        hint = f"{INSTALL}, or download it first: `{command}`" if command else INSTALL
        raise InputError(
            Fault(
                "is a URL, and fsspec, which reads and writes URLs, is not installed",
                where=url,
                hint=hint,
            )
        ) from None
    return fsspec


def _open_filesystem(fsspec: Any, url: str) -> tuple[Any, str]:
    schemes = set(list_schemes(url))
    configured = {**fsspec.config.conf.get("s3", {}), **fsspec.config.conf.get("s3a", {})}
    options = {scheme: s3_options(configured) for scheme in schemes & {"s3", "s3a"}}
    for scheme in options:
        fsspec.filesystem(
            scheme, **options[scheme]
        ).retries = 1  # botocore itself repeats requests, those that may be repeated
    if "::" in url:  # fsspec itself reads archives, and by default waits without a limit
        options |= {
            scheme: http_options(fsspec.config.conf.get(scheme, {}))
            for scheme in schemes & {"http", "https"}
        }
    return fsspec.core.url_to_fs(url, **options)  # type: ignore[no-any-return]


@contextlib.contextmanager
def translate_errors(url: str, *, writes: bool = False) -> Iterator[None]:
    """Raise InputError, or OutputError, for any exception of a file system in the block."""
    try:
        yield
    except GraphshareError:
        raise
    except Exception as error:  # file systems are plug-ins and may raise anything
        raise translate_error(error, url, writes=writes) from error


def translate_error(error: Exception, url: str, *, writes: bool = False) -> GraphshareError:
    """Return a file system's error as one that names the URL, without credentials."""
    if isinstance(error, ImportError):
        fault = _refuse_missing_package(error, url)
    elif isinstance(error, FileNotFoundError):
        fault = Fault("does not exist", where=url)
    else:
        status = find_status(error)
        # botocore has NoCredentialsError and PartialCredentialsError.
        denied = (
            isinstance(error, PermissionError)
            or status in (401, 403)
            or "Credentials" in type(error).__name__
        )
        known = _STATUSES.get(
            status, f"the server answered {status}" if status else describe_timeout(error)
        )
        reason = (
            known
            or f"cannot be {'written' if writes else 'read'}: {hide_secrets(_reason(error), url)}"
        )
        fault = Fault(reason, where=url, hint=_CREDENTIALS if denied else "")
    return OutputError(fault) if writes else InputError(fault)


def _refuse_missing_package(error: ImportError, url: str) -> Fault:
    hint = INSTALL if find_scheme(url) in _OWN else ""
    # fsspec names the package: "Please install gcsfs to access Google Storage", 'SFTPFileSystem
    # requires "paramiko"'.
    named = re.search(
        r"(?:[Ii]nstall(?: the)?|requires) [\"']*(?!to\b|the\b)([a-z][\w-]*)", str(error)
    )
    if named and not hint:
        hint = f"pip install {named[1]}"
    return Fault(f"needs a package that is not installed: {error}", where=url, hint=hint)


def find_status(error: BaseException) -> int:
    """Return the status with which a server refused a request; 0 for any other error."""
    status = getattr(error, "status", None)  # aiohttp
    # botocore
    response = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
    if status is None and isinstance(response, Mapping):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status if isinstance(status, int) else 0


def may_pass(error: BaseException) -> bool:
    """Whether a failed request may succeed when repeated."""
    status = find_status(error)
    if status:
        return status == 429 or status >= 500
    # By name: the packages that define these errors may not be installed.
    kind = type(error).__name__
    if (
        "DNS" in kind
        or "Certificate" in kind
        or isinstance(error, (FileNotFoundError, PermissionError))
    ):
        return False
    return isinstance(
        error, (ConnectionError, TimeoutError, asyncio.TimeoutError, asyncio.IncompleteReadError)
    ) or kind in (
        *(
            "ClientPayloadError",
            "ServerDisconnectedError",
            "ClientOSError",
            "ClientConnectorError",
            "ClientConnectionError",
        ),
        *(
            "IncompleteRead",
            "ResponseStreamingError",
            "EndpointConnectionError",
            "ServerTimeoutError",
            "SocketTimeoutError",
        ),
        *("ReadTimeoutError", "ConnectionClosedError", "HTTPClientError", "ConnectionTimeoutError"),
    )


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return redact(shorten(" ".join(str(text).split()), 300)) or type(error).__name__
