-- SPDX-License-Identifier: Apache-2.0
--
-- -o mpi=spectrum: IBM Spectrum MPI, a relative of Open MPI. Without its own mpirun its libraries need the place
-- where it is (MPI_ROOT, if it is not IBM's), and not to use the transports that only that mpirun can set up.

source (shell.rcpath .. "/openmpi.lua")

local root = shell.getenv ("MPI_ROOT") or "/opt/ibm/spectrum_mpi"
shell.setenv ("MPI_ROOT", root)
shell.setenv ("OPAL_PREFIX", root, false)
shell.setenv ("OPAL_LIBDIR", root .. "/lib", false)
shell.setenv ("PMIX_INSTALL_PREFIX", root, false)
shell.prepend_path ("LD_LIBRARY_PATH", root .. "/lib")
shell.prepend_path ("LD_LIBRARY_PATH", root .. "/lib/pami_port")
shell.prepend_path ("LD_PRELOAD", root .. "/lib/libpami_cudahook.so")

shell.setenv ("OMPI_MCA_pml", "ucx", false)
shell.setenv ("OMPI_MCA_osc", "pt2pt", false)
shell.setenv ("OMPI_MCA_btl", "self", false)
shell.setenv ("OMPI_MCA_coll_hcoll_enable", 0, false)

-- For its own libraries, and for scripts that know no other.
plugin.register {
  name = "spectrum",
  handlers = {
    { topic = "task.init", fn = function () task.setenv ("OMPI_COMM_WORLD_RANK", task.info.rank) end },
  },
}
