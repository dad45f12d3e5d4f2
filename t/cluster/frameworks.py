# SPDX-License-Identifier: Apache-2.0
"""What frameworks make of a task's variables: each row of FRAMEWORKS has the rule of one, as its source reads them (named beside
it), written anew. Prints a line "NAME rank=R size=S local=L at=HOST" for each, or "NAME none" where the framework does not
take itself for one of several processes.
"""

import os
import re
import sys

ENV = os.environ


def number(*names):
    """The first of these that is set."""
    return next((int(ENV[name]) for name in names if name in ENV), None)


def first_host(nodelist):
    """Of a list as Slurm writes it: that of node[001-3],host is node001."""
    text = re.split(r",(?![^[]*\])", nodelist)[0]
    return re.sub(r"\[(\w+)[^]]*\]", r"\1", text)


def lightning_slurm():
    # lightning/fabric/plugins/environments/slurm.py: refuses several tasks without SLURM_NTASKS_PER_NODE
    if "SLURM_NTASKS" not in ENV or ENV.get("SLURM_JOB_NAME") in ("bash", "interactive"):
        return None
    if int(ENV["SLURM_NTASKS"]) > 1 and "SLURM_NTASKS_PER_NODE" not in ENV:
        sys.exit("lightning: SLURM_NTASKS, but no SLURM_NTASKS_PER_NODE")
    return int(ENV["SLURM_PROCID"]), int(ENV["SLURM_NTASKS"]), int(ENV["SLURM_LOCALID"]), first_host(ENV["SLURM_NODELIST"])


def lightning():
    # lightning/fabric/connector.py: torchrun's variables come before Slurm's; environments/torchelastic.py
    if all(name in ENV for name in ("TORCHELASTIC_RUN_ID", "RANK", "GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE")):
        return int(ENV["RANK"]), int(ENV["WORLD_SIZE"]), int(ENV["LOCAL_RANK"]), ENV["MASTER_ADDR"]
    return lightning_slurm()


def jax():
    # jax/_src/clusters/slurm_cluster.py: the job's id alone makes it take all the others
    if "SLURM_JOB_ID" not in ENV:
        return None
    int(ENV["SLURM_STEP_NUM_NODES"])
    host = first_host(ENV["SLURM_STEP_NODELIST"])
    return int(ENV["SLURM_PROCID"]), int(ENV["SLURM_NTASKS"]), int(ENV["SLURM_LOCALID"]), host


def tensorflow():
    # tensorflow/python/distribute/cluster_resolver/slurm_cluster_resolver.py; it has no local rank
    if "OMPI_COMM_WORLD_RANK" in ENV:
        return int(ENV["OMPI_COMM_WORLD_RANK"]), int(ENV["OMPI_COMM_WORLD_SIZE"]), None, None
    if "SLURM_PROCID" not in ENV:
        return None
    int(ENV["SLURM_NTASKS_PER_NODE"])
    return int(ENV["SLURM_PROCID"]), int(ENV["SLURM_NTASKS"]), None, None


def accelerate():
    # accelerate/state.py, transformers/training_args.py, of processes without gpus
    rank = number("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
    size = number("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
    local = number("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK")
    return None if rank is None else (rank, size, local, ENV.get("MASTER_ADDR"))


def deepspeed():
    # deepspeed/comm/comm.py: all of these, or it looks for MPI
    if not all(name in ENV for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK")):
        return None
    return int(ENV["RANK"]), int(ENV["WORLD_SIZE"]), int(ENV["LOCAL_RANK"]), ENV["MASTER_ADDR"]


def submitit():
    # submitit/slurm/slurm.py: SlurmJobEnvironment
    if "SLURM_JOB_ID" not in ENV:
        return None
    return int(ENV["SLURM_PROCID"]), int(ENV["SLURM_NTASKS"]), int(ENV["SLURM_LOCALID"]), first_host(ENV["SLURM_JOB_NODELIST"])


FRAMEWORKS = {"lightning": lightning, "jax": jax, "tensorflow": tensorflow, "accelerate": accelerate, "deepspeed": deepspeed,
              "submitit": submitit}

for name, rule in FRAMEWORKS.items():
    found = rule()
    text = "none" if found is None else "rank={} size={} local={} at={}".format(*found)
    print(f"{name} {text}", flush=True)
