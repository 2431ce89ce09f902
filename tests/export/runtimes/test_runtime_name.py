"""Names and versions of runtimes: taken apart, and put together again as they were."""

from keras_pe.export.runtimes.runtime import RuntimeName, Version


def test_a_name_has_a_family_a_variant_and_a_place_and_is_written_as_it_was() -> None:
    names = {
        "tensorflow": RuntimeName("tensorflow"),
        "onnxruntime[all]": RuntimeName("onnxruntime", "all"),
        "onnxruntime@/usr/bin/python3": RuntimeName("onnxruntime", "", "/usr/bin/python3"),
        "onnxruntime[basic]@/odd[1]/python@3": RuntimeName("onnxruntime", "basic", "/odd[1]/python@3"),
        "http://host:8000/v2/models/a@[1]": RuntimeName("http://host:8000/v2/models/a@[1]"),
    }
    for text, name in names.items():
        assert RuntimeName.parse(text) == name
        assert str(name) == text
        assert name.is_address is text.startswith("http")
    assert str(RuntimeName.parse("onnxruntime[basic]@python").any_variant) == "onnxruntime@python"


def test_a_version_has_a_package_a_release_and_what_follows_and_is_written_as_it_was() -> None:
    versions = {
        "onnxruntime 1.31.1": Version("onnxruntime", "1.31.1"),
        "onnxruntime-web[wasm] 1.30.0 in Node 20.1": Version("onnxruntime-web[wasm]", "1.30.0", "in Node 20.1"),
        "homemade": Version("homemade"),
        "": Version(""),
    }
    for text, version in versions.items():
        assert Version.parse(text) == version
        assert str(version) == text
    assert [version.detail for version in versions.values()] == ["1.31.1", "1.30.0 in Node 20.1", "homemade", ""]
    assert str(Version.parse("onnxruntime-web[wasm] 1.30.0 in Node 20.1").package_release) == "onnxruntime-web 1.30.0"
