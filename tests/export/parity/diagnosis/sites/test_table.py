"""Sites stand in one table: what outputs alone tell is looked for in the same order as what a layer shows."""

import importlib
import inspect
import pkgutil

from keras_pe.export.parity.diagnosis import sites
from keras_pe.export.parity.diagnosis.edits import Edits
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.parity.diagnosis.sites import SITES, Seen, sites_seen


def test_every_site_is_a_row_of_the_table() -> None:
    modules = [
        importlib.import_module(f"{sites.__name__}.{each.name}") for each in pkgutil.iter_modules(sites.__path__)
    ]
    of_faults = {
        function
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_")
        if inspect.get_annotations(function) == {"fault": LayerFault, "return": Edits}
    }
    assert len(of_faults) > 20
    assert of_faults == set(SITES)


def test_a_site_that_outputs_show_comes_in_the_order_of_those_that_a_layer_shows() -> None:
    both = [site for site in sites_seen(Seen.LAYER) if site in sites_seen(Seen.OUTPUTS)]
    assert both == [site for site in sites_seen(Seen.OUTPUTS) if site in both]
    assert len(both) > 10
