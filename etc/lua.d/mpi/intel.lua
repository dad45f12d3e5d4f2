-- SPDX-License-Identifier: Apache-2.0
--
-- -o mpi=intel: Intel MPI, a relative of MPICH. Sites' modules point I_MPI_PMI_LIBRARY to the PMI library of another
-- manager; without it, Intel MPI speaks PMI itself. It also takes a rank from Slurm's variables.

source (shell.rcpath .. "/mpich.lua")
shell.env_strip ("^I_MPI_PMI", "^SLURM_PROCID$", "^SLURM_NPROCS$")
