"""The model in training as a source of completions, whether it is whole on each process or spread over all."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from accelerate.utils import gather_object
from trl.models import unwrap_model_for_generation

from medgrpo.distributed.sharding import autoep_layers, is_zero3
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.backend import Prompt, Sampling
from medgrpo.evaluation.evaluate import Share
from medgrpo.evaluation.generate import TransformersBackend
from medgrpo.trainers.base import MedGRPOTrainer

IDLE: dict[str, Prompt] = {"idle": [{"role": "user", "content": "."}]}


@contextmanager
def scoring_backend(
    trainer: MedGRPOTrainer, sampling: Sampling, batch_size: int, questions: int
) -> Iterator[tuple[TransformersBackend, Share]]:
    """A backend for the model as it stands, and this process's share of so many questions; collective.

    Under ZeRO-3 the weights are whole on every process meanwhile, unless `ds3_gather_for_generation` is off: then
    they are gathered a layer at a time, which is slow, and only an engine can do that, so only after training.
    Where processes need each other for a token, one with fewer batches goes on with idle ones.
    """
    accelerator = trainer.accelerator
    index, count = accelerator.process_index, accelerator.num_processes
    model = accelerator.unwrap_model(trainer.model)
    spread = is_zero3(model) or bool(autoep_layers(model))
    if is_zero3(model) and not trainer.args.ds3_gather_for_generation and trainer.model_wrapped is trainer.model:
        raise MedgrpoError(
            "ds3_gather_for_generation: false: a model in ZeRO-3's partitions can't be scored before training: "
            "leave it out, or score the base with medgrpo evaluate"
        )
    with unwrap_model_for_generation(
        trainer.model_wrapped,
        accelerator,
        gather_deepspeed3_params=trainer.args.ds3_gather_for_generation,
        gradient_checkpointing_kwargs=trainer.args.gradient_checkpointing_kwargs,
    ) as whole_model:
        # As the rollouts are prompted: a model trained without its thinking is scored without it.
        backend = TransformersBackend(
            whole_model, trainer.processing_class, sampling, batch_size, trainer.chat_template_kwargs
        )

        def gather(completions: list[Any]) -> list[Any]:
            # Batches of the first process, which has the most questions, and of this one.
            most, mine = (-(-len(range(first, questions, count)) // batch_size) for first in (0, index))
            for _ in range(most - mine if spread else 0):
                list(backend.complete(IDLE))
            return gather_object(completions)

        yield backend, Share(index, count, gather)
