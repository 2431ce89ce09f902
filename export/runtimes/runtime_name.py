"""What a runtime is called, and which release of it ran: taken apart here, and nowhere else."""

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True)
class RuntimeName:
    """A name such as "onnxruntime[all]", "onnxruntime[basic]@/path/to/python", or the address of a served model.

    Attributes:
        family: "onnxruntime"; an address as a whole.
        variant: What stands in brackets: "all".
        place: Another installation: "/path/to/python".
    """

    family: str
    variant: str = ""
    place: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns the name that a user writes, or a report has."""
        if cls(text).is_address:
            return cls(text)
        name, _, place = text.partition("@")
        family, _, variant = name.partition("[")
        return cls(family, variant.removesuffix("]"), place)

    def __str__(self) -> str:
        variant = f"[{self.variant}]" if self.variant else ""
        return f"{self.family}{variant}" + (f"@{self.place}" if self.place else "")

    @property
    def is_address(self) -> bool:
        """Whether it is where a server has a model."""
        return self.family.startswith(("http://", "https://"))

    @property
    def any_variant(self) -> Self:
        """The name that all variants of this runtime, in its place, have in common."""
        return replace(self, variant="")


@dataclass(frozen=True)
class Version:
    """What a runtime says of itself, such as "onnxruntime 1.31.1" or "onnxruntime-web[wasm] 1.30.0 in Node 20.19.2".

    Attributes:
        package: With the variant, if there is one.
        release: Its version.
        remark: What follows, such as where it runs.
    """

    package: str
    release: str = ""
    remark: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns the version that a runtime tells."""
        package, _, rest = text.partition(" ")
        release, _, remark = rest.partition(" ")
        return cls(package, release, remark)

    @property
    def of_package(self) -> "Version":
        """The package without a variant, and its release: what two runtimes have in common wherever they run."""
        return Version(RuntimeName.parse(self.package).family, self.release)

    @property
    def detail(self) -> str:
        """The release and what follows; the package where it tells no more."""
        return f"{self.release} {self.remark}".strip() or self.package

    def __str__(self) -> str:
        return f"{self.package} {self.release} {self.remark}".strip()
