"""The first packed pass of a model is compared with TRL's."""

from collections.abc import Callable

import torch
from accelerate import Accelerator

from medgrpo.errors import MedgrpoError
from medgrpo.trainers.shared_prefix.layout import PackedRows, pack_rows


def check_packed_pass(
    packed: Callable[[PackedRows], torch.Tensor],
    ordinary: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    completion_length: int,
    accelerator: Accelerator,
    exact: bool,
) -> None:
    """Score up to three of the rows `(B, P + T)` both ways, and raise `MedgrpoError` where the results differ.

    Two of the rows get the same prompt. `exact` is float32 or better on the CPU: no log-probability may then be off
    by 1e-3. Otherwise both passes round, and the mean difference may be 0.05; a wrong pass is off by more than 1.
    All processes have to call this together, each with its own rows.
    """
    ids, mask = rows_to_check(input_ids, attention_mask, completion_length)
    rows = pack_rows(ids, mask, completion_length)
    with torch.no_grad():
        expected = ordinary(ids, mask)
        difference = (packed(rows) - expected).abs().float()
    scored = mask[:, -completion_length:].sum()
    worst = difference.max() if exact else difference.sum() / scored
    worst = accelerator.gather(worst.reshape(1)).max().item()
    limit = 1e-3 if exact else 0.05
    if not worst <= limit:  # also where it is NaN
        raise MedgrpoError(
            f"scoring each prompt once gives other log-probabilities than TRL's pass on this model (off by "
            f"{worst:.3g}, at most {limit:g} is rounding): set shared_prefix: false"
        )


def rows_to_check(
    input_ids: torch.Tensor, attention_mask: torch.Tensor, completion_length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The first row's prompt with the first and the last completion, and the last row as it is: `(2 or 3, P + T)`.

    Made such that they can always be packed: masks without holes, and a token in each prompt and completion.
    """
    first = input_ids.shape[1] - completion_length
    ids = torch.stack([input_ids[0], torch.cat([input_ids[0, :first], input_ids[-1, first:]]), input_ids[-1]])
    mask = torch.stack(
        [attention_mask[0], torch.cat([attention_mask[0, :first], attention_mask[-1, first:]]), attention_mask[-1]]
    ).clone()
    mask[:, first - 1 : first + 1] = 1
    mask = torch.cat([mask[:, :first].cummax(dim=1).values, mask[:, first:].cummin(dim=1).values], dim=1)
    return ids[: len(input_ids) + 1], mask[: len(input_ids) + 1]
