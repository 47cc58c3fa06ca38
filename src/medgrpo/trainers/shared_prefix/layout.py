"""Rows that share prompts as one packed row: every prompt once, then every completion, without padding."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Grid:
    """Segments of unequal length, one behind the other `(n, ...)`, and padded on the right `(rows, width, ...)`."""

    lengths: tuple[int, ...]
    width: int
    places: torch.Tensor | None
    """`(n,)`: the cell of each token; None where every segment is as long as the grid is wide."""

    @classmethod
    def of(cls, lengths: list[int], device: torch.device) -> "Grid":
        """The narrowest grid for segments of these lengths."""
        width = max(lengths)
        if min(lengths) == width:
            return cls(tuple(lengths), width, None)
        filled = torch.arange(width) < torch.tensor(lengths).unsqueeze(1)
        return cls(tuple(lengths), width, filled.flatten().nonzero().squeeze(1).to(device))

    def spread(self, tokens: torch.Tensor) -> torch.Tensor:
        """`(n, ...)` -> `(rows, width, ...)`, with zeros for padding."""
        if self.places is not None:
            cells = tokens.new_zeros(len(self.lengths) * self.width, *tokens.shape[1:])
            tokens = cells.index_copy(0, self.places, tokens)
        return tokens.reshape(len(self.lengths), self.width, *tokens.shape[1:])

    def collect(self, cells: torch.Tensor) -> torch.Tensor:
        """`(rows, width, ...)` -> `(n, ...)`, the padding dropped."""
        tokens = cells.reshape(len(self.lengths) * self.width, *cells.shape[2:])
        return tokens if self.places is None else tokens.index_select(0, self.places)


@dataclass(frozen=True)
class Group:
    """The rows that share one prompt, as places in the packed row."""

    prompt: slice
    completions: slice
    grid: Grid | None
    """The completions of this group alone; rows without a completion token are not in it; None without any row."""


@dataclass(frozen=True)
class PackedRows:
    """A micro-batch of B rows with T completion columns, packed into one row of N tokens.

    The prompts come first, each once, then the completions, those of a prompt side by side.
    """

    input_ids: torch.Tensor
    """`(1, N)`"""
    position_ids: torch.Tensor
    """`(1, N)`: columns of the unpacked batch, so that positions are the ones that TRL's pass has."""
    weights: torch.Tensor
    """`(1, N)`: how many rows have the token; the router's load-balancing loss counts it as often."""
    groups: tuple[Group, ...]
    prompts: Grid
    completions: Grid
    prompt_of_completion: torch.Tensor
    """`(rows of completions,)`: the row of `prompts` that each row of `completions` goes on from."""
    predicting: torch.Tensor
    """`(n,)`: places in the packed row whose outputs predict a completion token."""
    targets: torch.Tensor
    """`(1, n)`: those completion tokens."""
    cells: torch.Tensor
    """`(n,)`: where these belong in the flattened `(B, T)`."""
    shape: tuple[int, int]
    """`(B, T)`"""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts together: where the completions begin."""
        return sum(self.prompts.lengths)

    def unpack(self, values: torch.Tensor) -> torch.Tensor:
        """`(n, ...)`, a value for each predicted token -> `(B, T, ...)`, zero where a row has no token."""
        rows, columns = self.shape
        cells = values.new_zeros(rows * columns, *values.shape[1:]).index_copy(0, self.cells, values)
        return cells.view(rows, columns, *values.shape[1:])


def number_prompts(input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """`(B,)`: a number for each row `(B, P)`; rows with the same prompt and the same padding get the same one."""
    return torch.unique(torch.cat([input_ids, attention_mask.to(input_ids.dtype)], dim=1), dim=0, return_inverse=True)[
        1
    ]


def pack_rows(input_ids: torch.Tensor, attention_mask: torch.Tensor, completion_length: int) -> PackedRows | None:
    """Pack rows `(B, P + T)` of left-padded prompts and right-padded completions; T is `completion_length`.

    None where rows can't be packed: a prompt without a token, no completion token at all, or a mask with holes.
    """
    (rows, columns), device = input_ids.shape, input_ids.device
    first = columns - completion_length  # the first column of completions
    mask = attention_mask.bool()
    prompt_mask, completion_mask = mask[:, :first], mask[:, first:]
    holes = (prompt_mask[:, :-1] & ~prompt_mask[:, 1:]).any() | (
        ~completion_mask[:, :-1] & completion_mask[:, 1:]
    ).any()
    numbers = number_prompts(input_ids[:, :first], attention_mask[:, :first])
    # One transfer from the device for everything that Python has to know.
    facts = torch.stack([numbers, prompt_mask.sum(dim=1), completion_mask.sum(dim=1), holes.expand(rows)])
    numbers, prompt_lengths, completion_lengths, (has_holes, *_) = facts.tolist()
    if has_holes or not min(prompt_lengths) or not max(completion_lengths):
        return None

    rows_of_prompt: dict[int, list[int]] = {}
    for row, number in enumerate(numbers):
        rows_of_prompt.setdefault(number, []).append(row)
    sharing = list(rows_of_prompt.values())
    lengths = [prompt_lengths[those[0]] for those in sharing]
    starts = [sum(lengths[:number]) for number in range(len(lengths) + 1)]

    places: list[torch.Tensor] = []  # in the flattened (B, P + T), in the packed order
    for those, length in zip(sharing, lengths, strict=True):
        places.append(those[0] * columns + torch.arange(first - length, first))
    weights = [torch.full((length,), float(len(those))) for those, length in zip(sharing, lengths, strict=True)]

    groups: list[Group] = []
    predicting: list[torch.Tensor] = []
    prompt_of_completion: list[int] = []
    spoken_lengths: list[int] = []
    end = starts[-1]
    for number, those in enumerate(sharing):
        begin = end
        spoken = [row for row in those if completion_lengths[row]]
        for row in spoken:
            length = completion_lengths[row]
            places.append(row * columns + torch.arange(first, first + length))
            # The prompt's last token predicts the first, and every other is predicted by the one before it.
            predicting += [torch.tensor([starts[number + 1] - 1]), torch.arange(end, end + length - 1)]
            end += length
        spoken_here = [completion_lengths[row] for row in spoken]
        grid = Grid.of(spoken_here, device) if spoken else None
        groups.append(Group(slice(starts[number], starts[number + 1]), slice(begin, end), grid))
        prompt_of_completion += [number] * len(spoken)
        spoken_lengths += spoken_here

    place = torch.cat(places)  # (N,)
    targets = place[starts[-1] :]
    weights.append(torch.ones(len(targets)))
    row, column = targets // columns, targets % columns
    place, targets = place.to(device), targets.to(device)
    tokens = input_ids.flatten()
    return PackedRows(
        input_ids=tokens[place].unsqueeze(0),
        position_ids=(place % columns).unsqueeze(0),
        weights=torch.cat(weights).unsqueeze(0).to(device),
        groups=tuple(groups),
        prompts=Grid.of(lengths, device),
        completions=Grid.of(spoken_lengths, device),
        prompt_of_completion=torch.tensor(prompt_of_completion, device=device),
        predicting=torch.cat(predicting).to(device),
        targets=tokens[targets].unsqueeze(0),
        cells=(row * completion_length + column - first).to(device),
        shape=(rows, completion_length),
    )
