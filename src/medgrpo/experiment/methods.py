"""Methods by name, alone or combined: `gspo`, or `[chord, mo_grpo]` as one trainer and one config."""

from collections.abc import Sequence
from dataclasses import make_dataclass
from functools import cache

from medgrpo.errors import MedgrpoError
from medgrpo.trainers.base import MedGRPOTrainer
from medgrpo.trainers.chord import CHORDTrainer
from medgrpo.trainers.chord_config import CHORDConfig
from medgrpo.trainers.config import MedGRPOConfig
from medgrpo.trainers.gspo import GSPOTrainer
from medgrpo.trainers.gspo_config import GSPOConfig
from medgrpo.trainers.mo_grpo import MOGRPOTrainer
from medgrpo.trainers.mo_grpo_config import MOGRPOConfig

Method = tuple[type[MedGRPOConfig], type[MedGRPOTrainer]]

# Their order is that of the bases of a combination: where methods differ in a default, the first one's holds (GSPO's
# sequence ratios), and MOGRPOConfig says why it comes last.
METHODS: dict[str, Method] = {
    "gspo": (GSPOConfig, GSPOTrainer),
    "chord": (CHORDConfig, CHORDTrainer),
    "mo_grpo": (MOGRPOConfig, MOGRPOTrainer),
    "grpo": (MedGRPOConfig, MedGRPOTrainer),
}


def combine(names: Sequence[str]) -> Method:
    """The config and the trainer that are all of the named methods at once.

    Raises `MedgrpoError` for no method and for one that there is not.
    """
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        raise MedgrpoError(f"method {', '.join(unknown) or 'missing'}: choose from {', '.join(sorted(METHODS))}")
    # GRPO is the base of all the others.
    parts = [METHODS[name] for name in METHODS if name in names and (name != "grpo" or set(names) == {"grpo"})]
    if len(parts) == 1:
        return parts[0]
    return _combine(tuple(parts))


@cache
def _combine(parts: tuple[Method, ...]) -> Method:
    configs, trainers = zip(*parts, strict=True)
    title = "".join(trainer.__name__.removesuffix("Trainer") for trainer in trainers)
    config = make_dataclass(f"{title}Config", [], bases=configs)
    # transformers pickles the config at each save, and pickle wants to find its class by name.
    config.__module__ = __name__
    globals()[config.__name__] = config
    return config, type(f"{title}Trainer", trainers, {"__module__": __name__})
