-- SPDX-License-Identifier: Apache-2.0
--
-- -o mpi=openmpi@5: from version 5 on, Open MPI finds its peers by PMIx alone. Asks for a PMIx plugin, unless the user
-- has chosen another way.

if shell.options.pmi == nil then
    shell.options.pmi = "pmix"
end
