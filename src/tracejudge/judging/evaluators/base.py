"""What our evaluators share beside LlamaIndex's base class."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.prompts.mixin import PromptDictType


class FixedPrompts:
    """Prompts are part of a JudgeId, so they come from the spec and cannot be changed behind its back."""

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts_dict: PromptDictType) -> None:
        if prompts_dict:
            raise ValueError("a judge's prompt is part of its JudgeId: set `prompt` in its JudgeSpec instead")


def text_passages(contexts: Sequence[str] | None) -> list[str]:
    """The passages that hold text, in order."""
    return [text for text in contexts or () if text and not text.isspace()]
