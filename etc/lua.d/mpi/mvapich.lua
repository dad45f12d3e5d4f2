-- SPDX-License-Identifier: Apache-2.0
--
-- -o mpi=mvapich: MVAPICH, a relative of MPICH. Drops what mpirun_rsh has left, has its ranks placed by what PMI says
-- and not by mpirun's mapping, and gives each task the variables by which programs choose a gpu before MPI_Init.

source (shell.rcpath .. "/mpich.lua")
shell.env_strip ("^MPISPAWN_", "^MPIRUN_", "^PMGR_", "^MV2_COMM_WORLD_")
shell.setenv ("MV2_USE_MPIRUN_MAPPING", 0, false)

plugin.register {
    name = "mpi",
    handlers = {
        {
            topic = "task.init",
            fn = function ()
                task.setenv ("MV2_COMM_WORLD_SIZE", shell.info.ntasks)
                task.setenv ("MV2_COMM_WORLD_RANK", task.info.rank)
                task.setenv ("MV2_COMM_WORLD_LOCAL_SIZE", shell.rankinfo.ntasks)
                task.setenv ("MV2_COMM_WORLD_LOCAL_RANK", task.info.localid)
            end
        },
    }
}
