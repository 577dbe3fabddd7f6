#!/usr/bin/env python3
"""Writes an assembler source with a function for each symbol of NVIDIA's libraries that some libraries need and an object lacks.

    make_stubs.py --nm nm --have dry_device.o --out stubs.S LIBRARY...

Each function reports its name to plimsoll_dry_stub() and returns 0, success in all of these libraries.
"""
import argparse
import re
import subprocess

OF_NVIDIA = re.compile(r"(cublas|cudnn|cusparse|cufft|cusolver|curand|cufile|nccl|nvshmem|cuda[A-Z]|__cuda|cu[A-Z])\w*$")

# Functions of the driver that libtorch finds by name.
BY_NAME = {"cuInit", "cuDriverGetVersion", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuDevicePrimaryCtxRetain", "cuGetErrorString",
           "cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel", "cuOccupancyMaxActiveBlocksPerMultiprocessor"}


def symbols(nm, path, *options):
    lines = subprocess.run([nm, *options, path], check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--have", required=True, help="an object; its functions are left out")
    parser.add_argument("--out", required=True)
    parser.add_argument("libraries", nargs="+")
    options = parser.parse_args()
    needed = set().union(*(symbols(options.nm, library, "-D", "--undefined-only") for library in options.libraries))
    had = symbols(options.nm, options.have, "--defined-only")
    wanted = sorted(name for name in needed | BY_NAME if name not in had and OF_NVIDIA.match(name))
    lines = [".text"]
    for name in wanted:
        lines += [f".globl {name}", f".type {name}, @function", f"{name}:", f"  lea .L{name}(%rip), %rdi", "  jmp plimsoll_dry_stub@PLT"]
    lines.append(".section .rodata")
    lines += [f'.L{name}: .asciz "{name}"' for name in wanted]
    lines.append('.section .note.GNU-stack, "", @progbits')  # without it the whole process would have an executable stack
    with open(options.out, "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
