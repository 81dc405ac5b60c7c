"""Leads to the package that this folder lies in.

`shardsim torch` puts the folder above into PYTHONPATH. There is nothing else in it: the site-packages folder
itself would give another Python the wrong modules.
"""

import importlib.util
import pathlib
import sys

_package = pathlib.Path(__file__).resolve().parents[5]
_spec = importlib.util.spec_from_file_location(
    __name__, _package / "__init__.py", submodule_search_locations=[str(_package)]
)
_module = importlib.util.module_from_spec(_spec)
sys.modules[__name__] = _module  # The import that reads this file returns it.
_spec.loader.exec_module(_module)
