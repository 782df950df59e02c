# SPDX-License-Identifier: BSD-3-Clause
"""Outlast from Python: train a model through a parameter server that may be killed.

    import outlast, torch

    with outlast.launch(init=outlast.torch.vector(model), workers=1, lr=0.1) as servers:
        with outlast.connect(servers) as job:
            optimizer = outlast.torch.Optimizer(model, job)

README.md of src/python says more. outlast.torch is loaded when it is first used.
"""
import importlib
import os

from ._errors import (Closed, Dropped, Error, HistoryChanged, Late, Lost, NonFinite, NoServer,
                      Refused, Timeout, Torn, WrongThread)
from ._job import Job, Reader, Weights, connect, library_version, reader
from ._launch import Launch, Server, launch
from ._library import ffi, lib
from ._rule import NOW, Group, Rule
from ._tensor import Tensor

__all__ = ["NOW", "Closed", "Dropped", "Error", "Group", "HistoryChanged", "Job", "Late", "Launch",
           "Lost", "NoServer", "NonFinite", "Reader", "Refused", "Rule", "Server", "Tensor",
           "Timeout", "Torn", "Weights", "WrongThread", "connect", "launch", "library_version",
           "log_level", "reader", "torch"]

LEVELS = {"error": lib.OL_LOG_ERROR, "warn": lib.OL_LOG_WARN, "info": lib.OL_LOG_INFO,
          "debug": lib.OL_LOG_DEBUG}


def log_level(level: str) -> None:
    """The library writes lines up to this level to stderr: error, warn, info or debug.

    At the import it is $OUTLAST_LOG, or "warn".
    """
    if level not in LEVELS:
        raise ValueError(f"log level {level!r}: of {', '.join(LEVELS)}")
    lib.ol_log_set(ffi.NULL, LEVELS[level], ffi.NULL)


log_level(os.environ.get("OUTLAST_LOG", "warn"))


def __getattr__(name: str) -> object:
    if name == "torch":
        return importlib.import_module("outlast.torch")
    raise AttributeError(f"module 'outlast' has no attribute {name!r}")
