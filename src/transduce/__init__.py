"""transduce: the Transformer of "Attention Is All You Need", from two text files to a model in use.

    from transduce import Trainer, Translator

Names are imported when first used, so that `transduce --help` loads no torch.
"""

from typing import TYPE_CHECKING, Any

from transduce.version import __version__

if TYPE_CHECKING:
    from transduce.decode.translator import Translator
    from transduce.trainer import Trainer

__all__ = ["Trainer", "Translator", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Translator":
        from transduce.decode.translator import Translator

        return Translator
    if name == "Trainer":
        from transduce.trainer import Trainer

        return Trainer
    raise AttributeError(f"module 'transduce' has no attribute {name!r}")
