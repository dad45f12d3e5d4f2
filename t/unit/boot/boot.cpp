// SPDX-License-Identifier: Apache-2.0
#include "boot/boot.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>

#include "base/file.hpp"
#include "boot/pmix_keys.hpp"
#include "folder.hpp"
#include "group/first_words.hpp"
#include "transport/address.hpp"
#include "variable.hpp"
#include "variables_of.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::kit;     // NOLINT
using namespace nacre::boot;    // NOLINT
using namespace nacre::launch;  // NOLINT
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using Environment = std::map<std::string, std::string>;

namespace {

constexpr const char* kSecretText = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

BootRequest request_of(Way way, Environment environment) {
  BootRequest request;
  request.way = way;
  request.version = "0.1.0";
  request.variables = variables_of(std::move(environment));
  return request;
}

Environment step_of_three(const std::string& rank) {
  return {{"SLURM_JOB_ID", "41"}, {"SLURM_STEP_ID", "2"},        {"SLURM_PROCID", rank},
          {"SLURM_NODEID", rank}, {"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_STEP_NODELIST", "n[7-9]"}};
}

std::string secret_file(const TemporaryFolder& folder) {
  std::string path = folder.path("secret");
  std::ofstream(path) << kSecretText;
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  return path;
}

LaunchRecord record_of(std::uint32_t size, std::optional<group::Rank> rank) {
  LaunchRecord record;
  record.version = "0.1.0";
  record.protocol = group::kProtocol;
  record.job = value::JobId(77);
  record.rank = rank;
  record.size = size;
  record.arity = 2;
  for (std::uint32_t i = 0; i < size; ++i) record.hosts.append("n" + std::to_string(i));
  record.shell = {"nacre-shell"};
  return record;
}

// A descriptor for a shell's standard input, with these bytes in it.
UniqueFd input_with(const std::string& bytes) {
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  REQUIRE(write_all(pipe.write.get(), bytes) == 0);
  return std::move(pipe.read);
}

std::string lines_of(const LaunchRecord& record) {
  return launch_lines(transport::Secret::from_hex(kSecretText).value(), record.line());
}

std::string texts(const std::vector<transport::Address>& addresses) {
  std::string out;
  for (const auto& each : addresses) out += (out.empty() ? "" : " ") + each.text();
  return out;
}

}  // namespace

TEST_CASE("the ways have names") {
  for (Way way : {Way::automatic, Way::standalone, Way::pmi, Way::pmix, Way::slurm, Way::hosts}) {
    CHECK(parse_way(way_name(way)).value() == way);
  }
  CHECK(error_of(parse_way("ssh")) ==
        "expected auto, standalone, pmi, pmix, slurm, hosts, index or flux, got 'ssh'");
}

TEST_CASE("alone, where nothing tells of others, and why") {
  Boot out = boot::boot(request_of(Way::automatic, {})).value();
  CHECK(out.way == Way::standalone);
  CHECK_FALSE(out.membership);
  CHECK(out.how ==
        "standalone: no sign of other shells; not pmi: PMI_FD is not set; not pmix: PMIX_NAMESPACE is not "
        "set; not slurm: SLURM_PROCID is not set; not index: no variables of a pod");
  // A batch script is not a task of a step.
  out = boot::boot(request_of(Way::automatic, {{"SLURM_JOB_ID", "41"}, {"SLURM_PROCID", "0"}})).value();
  CHECK_THAT(out.how, ContainsSubstring("not slurm: SLURM_STEP_ID is not set"));
  BootRequest request = request_of(Way::standalone, step_of_three("1"));
  request.id = value::JobId(9);
  out = boot::boot(request).value();
  CHECK(out.how == "standalone: it was asked for");
  CHECK(out.id == value::JobId(9));
}

TEST_CASE("a way that is asked for and not there is refused with what is seen") {
  CHECK_THAT(error_of(boot::boot(request_of(Way::pmi, {{"SLURM_PROCID", "3"}, {"PMIX_RANK", "1"}}))),
             StartsWith("--boot=pmi: PMI_FD is not set") &&
                 ContainsSubstring("(seen: PMIX_RANK='1', SLURM_PROCID='3')") &&
                 ContainsSubstring("srun --mpi=pmi2"));
  CHECK_THAT(error_of(boot::boot(request_of(Way::pmi, {}))), ContainsSubstring("(seen: none of PMI_FD, PMI_RANK"));
  CHECK_THAT(error_of(boot::boot(request_of(Way::slurm, {{"SLURM_JOB_ID", "3"}}))),
             StartsWith("--boot=slurm: SLURM_STEP_ID is not set (seen: SLURM_JOB_ID='3')"));
  CHECK_THAT(error_of(boot::boot(request_of(Way::pmix, {{"PMIX_NAMESPACE", "x"}}))),
             StartsWith("--boot=pmix: PMIX_RANK is not set (seen: PMIX_NAMESPACE='x')") &&
                 ContainsSubstring("srun --mpi=pmix"));
  Result<std::unique_ptr<Keys>> none = open_pmix_keys("libno-such-pmix.so.9");
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ENOENT);
  CHECK_THAT(none.error().message, ContainsSubstring("Debian's package libpmix"));
  BootRequest request = request_of(Way::standalone, {});
  request.arity = 1;
  CHECK_THAT(error_of(boot::boot(request)), ContainsSubstring("expected 2 to 1024, got 1"));
}

// ---- slurm -----------------------------------------------------------------

TEST_CASE("a step of Slurm with a secret file: ports by agreement") {
  TemporaryFolder folder;
  BootRequest request = request_of(Way::automatic, step_of_three("2"));
  request.secret_file = secret_file(folder);
  Boot out = boot::boot(request).value();
  CHECK(out.way == Way::slurm);
  CHECK_THAT(out.how, StartsWith("slurm: SLURM_PROCID and SLURM_STEP_ID are set: shell 2 of 3") &&
                          ContainsSubstring("not pmi"));
  REQUIRE(out.membership);
  const group::Membership& me = *out.membership;
  CHECK(me.job == value::JobId(41ULL << 32 | 2));
  CHECK(me.rank == 2);
  CHECK(me.size == 3);
  CHECK(me.secret.hex() == kSecretText);
  auto ports = transport::agreed_ports(me.secret, 2).value();
  REQUIRE(me.sockets.size() == 1);
  CHECK(std::count(ports.begin(), ports.end(), me.sockets[0].port()) == 1);
  CHECK_THAT(me.address, ContainsSubstring(":" + std::to_string(me.sockets[0].port())));
  std::string leader;
  auto leaders = transport::agreed_ports(me.secret, 0).value();
  for (auto port : leaders) leader += fmt::format("{}n7:{}", leader.empty() ? "" : " ", port);
  CHECK(texts(me.directory.find(0)) == leader);
  CHECK(me.directory.find(3).empty());
  CHECK_FALSE(out.launcher);
}

TEST_CASE("a step of Slurm without a secret is told what to do") {
  CHECK_THAT(error_of(boot::boot(request_of(Way::automatic, step_of_three("1")))),
             StartsWith("--boot=slurm: this is task 1 of 3") && ContainsSubstring("nacre launch --srun") &&
                 ContainsSubstring("--secret-file"));
}

TEST_CASE("a step of Slurm that has not one task a node in their order is refused") {
  auto refused = [](const char* name, const char* value) {
    Environment step = step_of_three("1");
    step[name] = value;
    return error_of(boot::boot(request_of(Way::automatic, step)));
  };
  CHECK_THAT(refused("SLURM_STEP_NUM_TASKS", "6"),
             ContainsSubstring("6 tasks on 3 nodes") && ContainsSubstring("--ntasks-per-node=1"));
  CHECK_THAT(refused("SLURM_NODEID", "2"), ContainsSubstring("--distribution=block"));
  CHECK_THAT(refused("SLURM_PROCID", "3"), ContainsSubstring("SLURM_PROCID: 3 is not below the 3 tasks"));
  CHECK_THAT(refused("SLURM_PROCID", "x"), ContainsSubstring("SLURM_PROCID: expected a number up to"));
  CHECK_THAT(refused("SLURM_STEP_NODELIST", "n[7-"), ContainsSubstring("SLURM_STEP_NODELIST: hostlist"));
}

TEST_CASE("a step of Slurm with one task is alone") {
  Environment step = step_of_three("0");
  step["SLURM_STEP_NUM_TASKS"] = "1";
  step["SLURM_STEP_NODELIST"] = "n7";
  Boot out = boot::boot(request_of(Way::automatic, step)).value();
  CHECK_FALSE(out.membership);
  CHECK_THAT(out.how, ContainsSubstring("the step has one task"));
}

TEST_CASE("nacre launch --srun: each shell reads the same secret and record from srun's standard input") {
  Variable places("NACRE_JOBS_DIR", "/mine");
  LaunchRecord record = record_of(3, {});
  record.environment = {{"NACRE_JOBS_DIR", "/shared"}};
  UniqueFd input = input_with(lines_of(record) + "rest");
  BootRequest request = request_of(Way::slurm, step_of_three("1"));
  request.input = input.get();
  Boot out = boot::boot(request).value();
  REQUIRE(out.membership);
  CHECK(out.membership->rank == 1);
  CHECK(out.membership->arity == 2);
  CHECK(out.id == value::JobId(77));
  CHECK(out.record->rank == 1U);
  CHECK(out.record->hosts.str() == "n[7-9]");
  CHECK(out.launcher);
  CHECK(out.launcher_bytes == "rest");
  CHECK(own_variable("NACRE_JOBS_DIR") == "/shared");
  UniqueFd other = input_with(lines_of(record_of(4, {})));
  request.input = other.get();
  CHECK_THAT(error_of(boot::boot(request)),
             ContainsSubstring("the launch record is for 4 shells, the step has 3 tasks"));
}

// ---- hosts -----------------------------------------------------------------

TEST_CASE("a shell that was launched knows those above it, and listens") {
  TemporaryFolder folder;
  LaunchRecord record = record_of(8, 6);
  record.agent = {"ssh"};
  std::string own = "unix:/tmp/nacre-" + transport::host_mark() + "-abcdef/s";
  record.addresses = {{0, own + " n0:70"}, {1, "n1:71"}, {2, "unix:/tmp/nacre-0000000000000000-abcdef/s n2:72"}};
  UniqueFd input = input_with(lines_of(record));
  BootRequest request = request_of(Way::hosts, {{"TMPDIR", folder.path("")}});
  request.input = input.get();
  {
    Boot out = boot::boot(request).value();
    CHECK(out.how == "hosts: --boot=hosts was given: shell 6 of 8");
    REQUIRE(out.membership);
    CHECK(texts(out.membership->directory.find(0)) == own + " n0:70");
    CHECK(out.membership->directory.find(1).empty());  // shell 1 is not above this one
    CHECK(texts(out.membership->directory.find(2)) == "n2:72");
    CHECK(out.membership->sockets.size() == 2);  // the Unix socket, and one for other hosts
    CHECK(out.membership->address.starts_with("unix:" + folder.path("")));
    CHECK(out.launcher);
  }
  CHECK(std::filesystem::is_empty(folder.path("")));
}

TEST_CASE("where no agent starts shells elsewhere, a launched shell listens on its Unix socket alone") {
  TemporaryFolder folder;
  LaunchRecord record = record_of(2, 0);
  record.agent.clear();
  UniqueFd input = input_with(lines_of(record));
  BootRequest request = request_of(Way::hosts, {{"TMPDIR", folder.path("")}});
  request.input = input.get();
  Boot out = boot::boot(request).value();
  REQUIRE(out.membership);
  REQUIRE(out.membership->sockets.size() == 1);
  CHECK(out.membership->address == "unix:" + out.membership->sockets[0].path());
}

TEST_CASE("a launched shell refuses a record without what it needs") {
  auto refused = [](const std::string& bytes) {
    UniqueFd input = input_with(bytes);
    BootRequest request = request_of(Way::hosts, {});
    request.input = input.get();
    return error_of(boot::boot(request));
  };
  CHECK_THAT(refused(lines_of(record_of(3, 2))),
             ContainsSubstring("addresses: shell 0 is above this one, and is not there"));
  CHECK_THAT(refused(lines_of(record_of(3, {}))), ContainsSubstring("rank: expected this shell's"));
  CHECK_THAT(refused(std::string(kSecretText) + "\n"), ContainsSubstring("the launch record is missing"));
  CHECK_THAT(refused("x\n"), StartsWith("--boot=hosts: standard input: a secret has 64"));
}

TEST_CASE("a launched shell that is the only one is alone, with a record") {
  UniqueFd input = input_with(lines_of(record_of(1, 0)));
  BootRequest request = request_of(Way::hosts, {});
  request.input = input.get();
  Boot out = boot::boot(request).value();
  CHECK_FALSE(out.membership);
  CHECK(out.record);
  CHECK(out.id == value::JobId(77));
}
