-- SPDX-License-Identifier: Apache-2.0
--
-- -o mpi=mpich: MPICH, and what derives from it. A job that is started from within an mpiexec (Hydra), or from a step
-- of another manager that speaks PMI, inherits its ranks and the descriptor or the port of its server.

shell.env_strip ("^PMI_", "^HYDI_", "^HYDRA_", "^MPI_LOCALRANKID$", "^MPI_LOCALNRANKS$",
    "^MPIR_CVAR_CH3_INTERFACE_HOSTNAME$",
    -- All but the settings, PMIX_MCA_*.
    "^PMIX_[^M]", "^PMIX_M[^C]")
