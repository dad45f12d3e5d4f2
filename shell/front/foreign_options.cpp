// SPDX-License-Identifier: Apache-2.0
#include "front/foreign_options.hpp"

#include <array>

namespace nacre::front {
namespace {

// nacre-run(1) has the same table.
constexpr std::array<cli::ForeignOption, 36> kForeignOptions{{
    // How many, and where.
    {"-np --np", "--ntasks=%", "", ""},
    {"-ppn --ppn -npernode --npernode -perhost --perhost", "--tasks-per-node=%", "", ""},
    {"-H --host -host -hosts -w --nodelist", "--hosts=%", "", ""},
    {"-f -machinefile --machinefile -hostfile", "--hostfile=%", "", ""},
    {"-O --overcommit", "--oversubscribe", "", ""},
    {"-m --distribution", "--taskmap=%", "block cyclic", "--taskmap says which task is on which node"},
    {"--map-by -map-by --rank-by -rank-by", "", "",
     "--taskmap says which task is on which node, --tasks-per-node how many are, --cpu-bind what each is bound to"},
    {"--bind-to -bind-to", "--cpu-bind=%", "core numa none",
     "--cpu-bind=thread|core|l3|numa|package|none binds each task to its part of the node"},
    {"-G --gpus --gpus-per-node --gres", "", "", "-g N gives each task N gpus"},
    {"-W --wait", "", "", "-o exit-timeout=TIME says how long the others may run once a task has ended"},
    // Environment and directory.
    {"-x", "--env=%", "", ""},
    {"-env -genv -genvlist", "", "", "--env=NAME=VALUE sets a variable of the tasks"},
    {"--export", "%", "ALL", "tasks get this environment; --env='-*' removes it, --env=NAME=VALUE sets a variable"},
    {"-D -wdir --wdir -wd", "--chdir=%", "", ""},
    {"--mca -mca --pmixmca --prtemca", "", "", "--env=OMPI_MCA_NAME=VALUE sets a parameter of Open MPI"},
    {"--mpi", "--setopt=pmi=%", "pmix pmi2", "-o pmi=simple,pmi2,pmix or off says what tasks are offered"},
    // Output.
    {"--label --tag-output -tag-output -prepend-rank --prepend-rank", "--label-io", "", ""},
    {"--fold", "--setopt=output.fold", "", ""},
    {"-e", "--error=%", "", ""},
    {"-i", "--input=%", "", ""},
    {"-outfile-pattern -errfile-pattern --output-filename", "", "",
     "--output='out.{{task.rank}}' writes a file for each task, and so does --error"},
    {"--report-bindings -report-bindings", "--setopt=cpu-affinity=verbose,on", "", ""},
    // How it runs and ends.
    {"--time", "--time-limit=%", "", ""},
    {"-J --job-name", "--name=%", "", ""},
    {"--kill-on-bad-exit", "--fail-fast", "1", "--fail-fast ends the job when a task fails"},
    {"--no-kill", "--on-lost=go-on", "", ""},
    {"--exact --allow-run-as-root", "", "", ""},
    {"-p --partition -A --account --qos --reservation --exclusive --overlap --constraint -C --mem", "", "",
     "it is an option of srun, to which --srun-arg gives it: --srun-arg=--partition=NAME"},
    {"-launcher -bootstrap -rmk -launcher-exec", "", "",
     "hosts are reached by srun in an allocation of Slurm, else by ssh, or what --agent names"},
    {"--task-prolog --task-epilog --prolog --epilog", "", "",
     "-o prolog=CMD, epilog, task-prolog and task-epilog run programs before and after the tasks"},
    {"--signal", "", "", "-o signal=NUMBER and -o signal.timeleft=TIME warn tasks of a limit"},
    {"--setattr --requires --queue --dependency", "", "", "it is for a queue, and nacre starts the job at once"},
    // torchrun.
    {"--nproc-per-node --nproc_per_node", "", "", "--torch and --tasks-per-node=N start N processes on each node"},
    {"--nnodes", "", "", "-N says how many nodes, and --torch sets what torch.distributed needs"},
    {"--node-rank --node_rank --master-addr --master_addr --master-port --master_port --rdzv-backend "
     "--rdzv_backend "
     "--rdzv-endpoint --rdzv_endpoint --rdzv-id --rdzv_id --standalone",
     "", "", "--torch sets what torch.distributed needs, on all nodes"},
    {"--max-restarts --max_restarts", "--restart=on-failure,max=%", "", ""},
}};

}  // namespace

std::span<const cli::ForeignOption> foreign_options() { return kForeignOptions; }

}  // namespace nacre::front
