-- SPDX-License-Identifier: Apache-2.0
--
-- -o mpi=openmpi: Open MPI. A job that is started from within an mpirun or a PRRTE session inherits variables that
-- tell each process its rank there, and to which daemon to talk. The user's own settings (OMPI_MCA_*, PMIX_MCA_*,
-- PRTE_MCA_*) stay, but for those that only a launcher has a use for.
--
-- What Open MPI needs to be one job without its mpirun: a PMIx server (-o pmi=pmix), and for version 4 the variable
-- FLUX_JOB_ID, which every job has. By that it knows that somebody else has started it, and does not begin as one job
-- for each process.

shell.env_strip (
    "^OMPI_COMM", "^OMPI_UNIVERSE_SIZE$", "^OMPI_APP_CTX_NUM_PROCS$", "^OMPI_NUM_APP_CTX$", "^OMPI_FIRST_RANKS$",
    "^OMPI_FILE_LOCATION$", "^OMPI_ARGV$",
    "^OMPI_MCA_orte_", "^OMPI_MCA_ess", "^OMPI_MCA_pmix$", "^OMPI_MCA_schizo$", "^OMPI_MCA_initial_wdir$",
    "^OMPI_MCA_mpi_oversubscribe$", "^OMPI_MCA_rmaps_base_oversubscribe$", "^OMPI_MCA_shmem_RUNTIME_QUERY_hint$",
    -- All but the settings, *_MCA_*.
    "^PMIX_[^M]", "^PMIX_M[^C]", "^PRTE_[^M]", "^PRTE_M[^C]")

-- Shared memory goes to the job's own directory: in /dev/shm, segments of two jobs on one node may have the same name.
-- The transport is called vader up to version 4, sm from 5 on.
plugin.register {
    name = "mpi",
    handlers = {
        {
            -- The directory is made in shell.init, by a plugin that is called before this one.
            topic = "shell.init",
            fn = function ()
                local directory = shell.getenv ("FLUX_JOB_TMPDIR")
                if not directory then return end
                shell.setenv ("OMPI_MCA_btl_vader_backing_directory", directory, false)
                shell.setenv ("OMPI_MCA_btl_sm_backing_directory", directory, false)
            end
        },
        {
            -- Ranks that share cores leave them to each other where they would spin.
            topic = "shell.post-init",
            fn = function ()
                local here = shell.rankinfo
                if here.ntasks > here.resources.ncores then
                    shell.setenv ("OMPI_MCA_mpi_yield_when_idle", 1, false)
                end
            end
        },
    }
}
