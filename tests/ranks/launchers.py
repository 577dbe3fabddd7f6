#!/usr/bin/env python3
"""Starts two ranks in each way that docs/several-devices.md names, and compares their losses with `--devices 2`.

    launchers.py PLIMSOLL PYTHON

PYTHON has torch; torchrun is then the real one, with stand-ins for the CUDA libraries that `import torch` asks for and that are
not installed. mpirun is the real one where there is one. Otherwise, and for Slurm, processes get the variables that the launcher sets."""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

JOB = """\
model: {{type: decoder, hidden_size: 64, num_layers: 1, num_heads: 2, num_kv_heads: 2, head_dim: 32, intermediate_size: 128}}
data: {{type: text, files: {text}, tokenizer: bytes, sequence_length: 32}}
micro_batch_size: 2
gradient_accumulation_steps: 1
max_steps: 3
threads: 1
seed: 1
"""

STAND_INS = {"libnccl.so.2": "nccl", "libcusparseLt.so.0": "cusparseLt", "libcudnn.so.9": "cudnn", "libcufile.so.0": "cuFile",
             "libcufft.so.12": "cufft", "libcusparse.so.12": "cusparse", "libcublas.so.13": "cublas",
             "libcublasLt.so.13": "cublasLt", "libcurand.so.10": "curand", "libnvshmem_host.so.3": "nvshmem",
             "libcusolver.so.12": "cusolver"}


def make_stand_ins(libraries, folder):
    """Libraries whose functions all fail, with the names and versions that libtorch's CUDA libraries ask for."""
    wanted = {name: {} for name in STAND_INS}
    for library in ("libtorch_nvshmem.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_python.so", "libc10_cuda.so"):
        if not (libraries / library).exists():
            continue
        table = subprocess.run(["readelf", "--dyn-syms", "-W", libraries / library], capture_output=True, text=True, check=True).stdout
        for words in map(str.split, table.splitlines()):
            if len(words) < 8 or words[6] != "UND":
                continue
            symbol, version = (re.split("@+", words[7]) + [""])[:2]
            owners = [name for name, prefix in STAND_INS.items() if symbol.startswith(prefix)]
            if owners:
                wanted[max(owners, key=lambda name: len(STAND_INS[name]))][symbol] = version
    for name, symbols in wanted.items():
        source, script = folder / "stand_in.c", folder / "versions.map"
        source.write_text("\n".join(f"int {symbol}(void) {{ return 999; }}" for symbol in sorted(symbols)) or "int nothing;")
        versions = sorted({version for version in symbols.values() if version})
        script.write_text("\n".join(
            f"{version} {{ global: {' '.join(symbol + ';' for symbol, of in symbols.items() if of == version)} }};" for version in versions))
        command = ["cc", "-shared", "-fPIC", "-w", "-fno-builtin", "-o", folder / name, source, f"-Wl,-soname,{name}"]
        subprocess.run(command + ([f"-Wl,--version-script={script}"] if versions else []), check=True)


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def clean_environment():
    """Without what a launcher that started this test has set."""
    known = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMPI_", "PMI", "SLURM_", "TORCHELASTIC_", "PLIMSOLL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(known)}


def started_by_variables(command, variables_of):
    processes = [subprocess.Popen(command, env={**clean_environment(), **variables_of(rank)}, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) for rank in range(2)]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit(f"exit codes {[process.returncode for process in processes]}:\n" + "\n".join(outputs))


def main():
    plimsoll, python = (os.path.abspath(path) for path in sys.argv[1:3])
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        text = folder / "text.txt"
        text.write_text("to plan what every byte is for, and to run exactly that. " * 200)
        job, report = folder / "job.yaml", folder / "report.json"
        job.write_text(JOB.format(text=text))
        train = [plimsoll, "train", str(job), "--json", str(report)]

        def losses():
            found = json.loads(report.read_text())
            report.unlink()
            assert len(found["ranks"]) == 2, found["ranks"]
            return found["losses"]

        def check(name, start):
            try:
                start()
                found = losses()
                said = "" if found == expected else f"losses {found}, not {expected}"
            except (OSError, AssertionError, subprocess.SubprocessError, SystemExit) as error:
                output = getattr(error, "output", "") or ""
                said = f"{error}\n{output[-2000:]}"
            print(f"{name}: {said or 'same losses as --devices 2'}", flush=True)
            if said:
                failed.append(name)

        def run(command, environment=None):
            subprocess.run(command, env={**clean_environment(), **(environment or {})}, check=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=300)

        run([*train, "--devices", "2"])
        expected = losses()
        check("devices: 2", lambda: run([*train, "devices=2"]))
        check("--nproc_per_node 2", lambda: run([*train, "--nproc_per_node", "2"]))

        stand_ins = folder / "stand-ins"
        stand_ins.mkdir()
        libraries = subprocess.run([python, "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"],
                                   capture_output=True, text=True, check=True).stdout.strip()
        make_stand_ins(pathlib.Path(libraries) / "lib", stand_ins)
        torchrun = [python, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node", "2", "--master-port", str(free_port())]
        check("torchrun", lambda: run([*torchrun, *train], {"LD_LIBRARY_PATH": str(stand_ins)}))

        if shutil.which("mpirun"):
            mpirun = ["mpirun", "-n", "2", "--oversubscribe", "--allow-run-as-root"]
            check("mpirun", lambda: run([*mpirun, *train]))
        else:
            port = str(free_port())
            check("mpirun's variables", lambda: started_by_variables(train, lambda rank: {
                "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}))
        check("mpirun's variables alone", lambda: started_by_variables(train, lambda rank: {
            "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
            "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}))
        port = str(free_port())
        check("srun's variables", lambda: started_by_variables(train, lambda rank: {
            "SLURM_JOB_ID": "4711", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2", "SLURM_PROCID": str(rank),
            "SLURM_LOCALID": str(rank), "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_STEP_NODELIST": "localhost",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
