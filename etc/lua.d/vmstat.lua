-- SPDX-License-Identifier: Apache-2.0
--
-- Shell option `vmstat`: a record of memory, swap, disks and cpus of each node while the job runs, by vmstat(8).
--
--   -o vmstat                a line every 5 s, to vmstat-JOBID-NODE.log in the job's working directory
--   -o vmstat.output=FILE    to another file; see coprocess in nacre-shell-options(7) for the other keys

coprocess.define {
    name = "vmstat",
    command = { "vmstat", "-t", "5" },
    output = "vmstat-{{id}}-{{node.id}}.log",
}
