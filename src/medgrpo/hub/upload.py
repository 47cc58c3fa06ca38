"""The way to the Hub: a repository opened, a folder uploaded, and what can go wrong told in one line each."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi, constants, get_token, is_offline_mode
from huggingface_hub.errors import HfHubHTTPError, HTTPError, RepositoryNotFoundError

from medgrpo.errors import MedgrpoError

# What an earlier push may have left and this one does not write: other shards, another evaluation.
_REPLACED = ["model*.safetensors", "model.safetensors.index.json", "adapter_model*.safetensors",
             "evaluation/*", "figures/*"]  # fmt: skip


class HubUnreachable(MedgrpoError):
    """The network or the Hub itself failed: the same command may well work later."""


def open_repository(repo_id: str, private: bool = True, token: str | None = None) -> str:
    """Make the repository where it is missing; returns its full name `OWNER/NAME`.

    Raises `MedgrpoError` without a token, for one that may not write there, and where `private` is wanted and the
    repository exists and is public; `HubUnreachable` where the Hub cannot be asked.
    """
    if is_offline_mode():
        raise MedgrpoError("HF_HUB_OFFLINE is set, so nothing can be pushed: unset it, or use --dry-run")
    if token is None and get_token() is None:
        raise MedgrpoError("no access token: log in with `hf auth login`, or set HF_TOKEN to one that may write")
    api = HfApi(token=token)
    with readable_hub(repo_id):
        full = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        public = not api.repo_info(full).private
    if private and public:
        raise MedgrpoError(f"{full} exists and is public: say --public to push there, or choose another --repo-id")
    return full


def upload(folder: Path, repo_id: str, message: str, token: str | None = None) -> str:
    """Upload the folder to an opened repository; returns the address of the commit.

    The client tries a lost connection again by itself: about six minutes over Xet, its default, and half a minute
    with HF_HUB_DISABLE_XET=1. After that `HubUnreachable` is raised; the same call goes on where it was, because
    what the Hub already has (chunks over Xet, whole files without) is found there by its hash.
    """
    with readable_hub(repo_id):
        done = HfApi(token=token).upload_folder(
            repo_id=repo_id, folder_path=folder, commit_message=message, delete_patterns=list(_REPLACED)
        )
    return done.commit_url


@contextmanager
def readable_hub(repo_id: str) -> Iterator[None]:
    """Turn what the Hub's client raises into one line."""
    try:
        yield
    # HTTPError: no answer, or one with an error status. OSError: a socket. RuntimeError: either of the two upload
    # protocols, around its cause. ValueError: an answer that is none, or a card that the Hub refuses.
    except (HTTPError, OSError, RuntimeError, ValueError) as error:
        raise _explain(error, repo_id) from error


def _explain(error: BaseException, repo_id: str) -> MedgrpoError:
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(cause)
    answered = next((e for e in chain if isinstance(e, HfHubHTTPError) and e.response is not None), None)
    if answered is not None:
        status = answered.response.status_code
        said = " ".join((answered.server_message or "").split())[:200]
        said = f": {said}" if said else ""
        if status == 401 and not isinstance(answered, RepositoryNotFoundError):
            return MedgrpoError(f"the Hub refuses the access token (401{said}): log in anew with `hf auth login`")
        if status in (401, 403, 404):
            return MedgrpoError(
                f"{repo_id}: the access token may not write there ({status}{said}): check the name and its owner, "
                "and that the token has write permission"
            )
        if status >= 500 or status == 429:
            return HubUnreachable(f"the Hub at {constants.ENDPOINT} fails (status {status}{said})")
        return MedgrpoError(f"{repo_id}: the Hub refuses it (status {status}{said})")
    reason = next((" ".join(str(e).split()) for e in reversed(chain) if str(e).strip()), type(error).__name__)
    if isinstance(error, ValueError):
        return MedgrpoError(f"{repo_id}: the Hub's client refuses it ({reason[:300]})")
    return HubUnreachable(f"the connection to the Hub at {constants.ENDPOINT} failed ({reason[:300]})")
