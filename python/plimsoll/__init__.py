"""Plimsoll's program, libraries and headers, as the wheel installs them.

    plimsoll.__version__       the version
    plimsoll.cmake_path()      a folder for CMAKE_PREFIX_PATH; find_package(plimsoll) finds the package in it
    plimsoll.include_path()    the folder of the C++ headers
    plimsoll.library_path()    the folder of libplimsoll
    plimsoll.program_path()    the program that the command `plimsoll` starts

Importing this module does not import torch and loads no library.
"""
import pathlib

from plimsoll._build import VERSION as __version__

__all__ = ["__version__", "cmake_path", "include_path", "library_path", "program_path"]

_FOLDER = pathlib.Path(__file__).resolve().parent


def cmake_path():
    """Returns the folder to put into CMAKE_PREFIX_PATH."""
    return str(_FOLDER)


def include_path():
    """Returns the folder of the C++ headers: #include "plimsoll/training.h" starts from it."""
    return str(_FOLDER / "include")


def library_path():
    """Returns the folder of libplimsoll and of the libraries that it loads on demand."""
    return str(_FOLDER / "lib")


def program_path():
    """Returns the program. It finds libtorch by itself only if torch is installed in the folder that has this package."""
    return str(_FOLDER / "bin" / "plimsoll")
