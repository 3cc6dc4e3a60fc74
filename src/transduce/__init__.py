"""transduce: the Transformer of "Attention Is All You Need", from two text files to a model in use.

    from transduce import Trainer, Translator
    from transduce import Listener, Report, Sample, Validation  # for a logger of your own

Names are imported when first used, so that `transduce --help` loads no torch.
"""

from typing import TYPE_CHECKING, Any

from transduce.version import __version__

if TYPE_CHECKING:
    from transduce.decode.translator import Translator
    from transduce.train.progress import Listener, Report, Sample, Validation
    from transduce.trainer import Trainer

__all__ = ["Listener", "Report", "Sample", "Trainer", "Translator", "Validation", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Translator":
        from transduce.decode.translator import Translator

        return Translator
    if name == "Trainer":
        from transduce.trainer import Trainer

        return Trainer
    if name in ("Listener", "Report", "Sample", "Validation"):
        from transduce.train import progress

        return getattr(progress, name)
    raise AttributeError(f"module 'transduce' has no attribute {name!r}")
