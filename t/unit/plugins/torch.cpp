// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "catch.hpp"

#include "event/clock.hpp"
#include "fake_host.hpp"
#include "fake_job.hpp"
#include "plugins/builtins.hpp"
#include "plugins/torch/store.hpp"
#include "plugins/torch/store_keys.hpp"
#include "plugins/torch/store_requests.hpp"

using namespace nacre;
using namespace nacre::plugins;

namespace {

// Four tasks on one node; shell.init with the option.
struct TorchJob {
  explicit TorchJob(const char* option, const char* gpus = nullptr,
                    const std::function<void(kit::FakeHost&)>& before = {}) {
    if (before) before(host);
    host.stack().push(plugins::make_torch(host));
    host.make_tasks();
    if (gpus != nullptr) host.environment().set("CUDA_VISIBLE_DEVICES", gpus);
    host.options().set("torch", Json::parse(option));
    if (Result<int> called = host.call("shell.init"); !called) error = called.error().message;
  }

  std::string of_job(const char* name) { return std::string(host.environment().get(name).value_or("none")); }
  std::string of_task(std::size_t task, const char* name) {
    REQUIRE(host.call_task("task.init", task));
    return std::string(host.tasks()[task]->command().env.get(name).value_or("none"));
  }

  kit::FakeHost host{4};
  std::string error;
};

}  // namespace

TEST_CASE("torch gives each task its place in the group") {
  TorchJob job("1");
  CHECK(job.error.empty());
  CHECK(job.of_job("WORLD_SIZE") == "4");
  CHECK(job.of_job("LOCAL_WORLD_SIZE") == "4");
  CHECK(job.of_job("GROUP_RANK") == "0");
  CHECK(job.of_job("NODE_RANK") == "0");
  CHECK(job.of_job("MASTER_ADDR") == "127.0.0.1");
  CHECK(job.of_job("TORCHELASTIC_USE_AGENT_STORE") == "True");
  CHECK(TorchJob(R"({"store": "rank0"})").of_job("MASTER_PORT") == "20001");
  CHECK(job.of_task(3, "RANK") == "3");
  CHECK(job.of_task(3, "LOCAL_RANK") == "3");
}

// The names are those that torchrun's agent sets for a worker, with their values for a group of one role.
TEST_CASE("torch: a task has all the variables that torchrun gives it") {
  TorchJob job(R"({"store": "rank0"})");
  const std::vector<std::pair<const char*, const char*>> all{{"LOCAL_RANK", "3"},
                                                             {"RANK", "3"},
                                                             {"GROUP_RANK", "0"},
                                                             {"ROLE_RANK", "3"},
                                                             {"ROLE_NAME", "default"},
                                                             {"LOCAL_WORLD_SIZE", "4"},
                                                             {"WORLD_SIZE", "4"},
                                                             {"GROUP_WORLD_SIZE", "1"},
                                                             {"ROLE_WORLD_SIZE", "4"},
                                                             {"MASTER_ADDR", "127.0.0.1"},
                                                             {"MASTER_PORT", "20001"},
                                                             {"TORCHELASTIC_RESTART_COUNT", "0"},
                                                             {"OMP_NUM_THREADS", "1"},
                                                             {"TORCHELASTIC_MAX_RESTARTS", "0"},
                                                             {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                                             {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}};
  for (const auto& [name, value] : all) {
    INFO(name);
    CHECK(job.of_task(3, name) == value);
  }
  CHECK(job.of_task(3, "TORCHELASTIC_RUN_ID") == job.host.job().id.f58_plain());
}

TEST_CASE("torch: what the user has set of threads and errors stays; a task with cores of its own uses them") {
  TorchJob bound("1", nullptr, [](kit::FakeHost& host) { host.options().set("cpu-affinity", "per-task"); });
  CHECK(bound.of_job("OMP_NUM_THREADS") == "none");
  TorchJob counted("1", nullptr, [](kit::FakeHost& host) { host.options().set("omp-threads", "4"); });
  CHECK(counted.of_job("OMP_NUM_THREADS") == "none");
  TorchJob own("1", nullptr, [](kit::FakeHost& host) {
    host.environment().set("OMP_NUM_THREADS", "8");
    host.environment().set("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0");
  });
  CHECK(own.of_job("OMP_NUM_THREADS") == "8");
  CHECK(own.of_job("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "0");
}

TEST_CASE("torch's LOCAL_RANK fits the gpus that a task sees") {
  CHECK(TorchJob("1", "5").of_task(3, "LOCAL_RANK") == "0");
  CHECK(TorchJob("1", "0,1").of_task(3, "LOCAL_RANK") == "1");
  CHECK(TorchJob("1", "MIG-a,MIG-b,MIG-c,MIG-d").of_task(3, "LOCAL_RANK") == "3");
  CHECK(TorchJob("1", "-1").of_task(3, "LOCAL_RANK") == "3");
}

TEST_CASE("torch.port is taken, and checked; what is off sets nothing") {
  CHECK(TorchJob(R"({"port": 29500, "store": "rank0"})").of_job("MASTER_PORT") == "29500");
  CHECK(TorchJob(R"({"store": "rank1"})").error.find("torch.store: expected shells or rank0") != std::string::npos);
  CHECK(TorchJob(R"({"port": 0})").error.find("torch.port: expected") != std::string::npos);
  CHECK(TorchJob(R"({"prot": 1})").error.find("torch") != std::string::npos);
  TorchJob off("false");
  CHECK(off.of_job("WORLD_SIZE") == "none");
  CHECK(off.of_task(1, "RANK") == "none");
}

using Asked = StoreRequest::Kind;

namespace {

constexpr std::string_view kGreeting("\0\xce\xf7\x85\x3c", 5);

std::string number(std::int64_t value) {
  std::string out;
  append_store_number(out, value);
  return out;
}

std::string text(std::string_view value) {
  std::string out;
  append_store_text(out, value);
  return out;
}

std::string of(int kind, const std::string& rest = "") { return static_cast<char>(kind) + rest; }

// The requests in these bytes, given in pieces of that size: kinds, words and numbers; an error's text at the end.
std::string read_all(std::string_view bytes, std::size_t piece) {
  StoreRequests requests;
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    requests.add(bytes.substr(at, piece));
    for (;;) {
      auto next = requests.next();
      if (!next) return out + next.error().message;
      if (!*next) break;
      out += fmt::format("{}:{}:{} ", static_cast<int>((*next)->kind), fmt::join((*next)->words, ","),
                         (*next)->number);
    }
  }
  return out;
}

// A client of a shell's store, on its loopback.
class StoreClient {
 public:
  explicit StoreClient(const TorchStore& store) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(store.port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    send(std::string(kGreeting));
  }
  void send(const std::string& bytes) {
    REQUIRE(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  }
  // The bytes that have come until now.
  std::string come() {
    char buffer[4096];
    ssize_t size = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (size == 0) return "end";
    return size < 0 ? "" : std::string(buffer, static_cast<std::size_t>(size));
  }

 private:
  UniqueFd fd_;
};

class Quiet final : public plugin::Plugin {
 public:
  Quiet() : Plugin("torch") {}
};

// Shells that serve a store, and a client of each.
struct Stores {
  explicit Stores(std::uint32_t shells) : job(shells, 1) {
    for (std::uint32_t i = 0; i < shells; ++i) {
      stores.push_back(std::make_unique<TorchStore>(job[i], plugin));
      REQUIRE(stores[i]->listen(0));
      clients.push_back(std::make_unique<StoreClient>(*stores[i]));
      // A loop with nothing to wait for does not look at a port, as ports do not keep it running.
      auto timer = event::Timer::create(job[i].loop(), [] {});
      REQUIRE(timer);
      timer->start(2 * kit::FakeHost::kTimeout);
      loops_run.push_back(*std::move(timer));
    }
  }
  // Whether done() becomes true while all shells go on.
  bool go_on_until(const std::function<bool()>& done) {
    const event::Seconds end = event::clock_now() + kit::FakeHost::kTimeout;
    for (; !done(); ::usleep(200)) {
      if (event::clock_now() > end) return false;
      job.deliver();
      for (std::uint32_t i = 0; i < stores.size(); ++i) job[i].loop().poll();
    }
    return true;
  }
  // Whether the client gets what is expected.
  bool gets(std::uint32_t client, const std::string& expected) {
    std::string come;
    return go_on_until([&] { return (come += clients[client]->come()) == expected; });
  }
  // Whether nothing comes to the client.
  bool waits(std::uint32_t client) {
    int turns = 0;
    return go_on_until([&] { return ++turns > 20; }) && clients[client]->come().empty();
  }

  Quiet plugin;
  kit::FakeJob job;
  std::vector<std::unique_ptr<TorchStore>> stores;
  std::vector<std::unique_ptr<StoreClient>> clients;
  std::vector<event::Timer> loops_run;
};

}  // namespace

TEST_CASE("requests are read as clients before and since PyTorch 2.2 write them, in any pieces") {
  // As PyTorch 1.13.1 sends it: set("k", "v"), and get("k").
  const std::string before = of(0, text("/k") + text("v")) + of(5, number(1) + text("/k")) + of(2, text("/k"));
  const std::string since = std::string(kGreeting) + of(1, text("/k") + text("v")) + of(6, number(1) + text("/k")) +
                            of(3, text("/k")) + of(13, "\x04\x03\x02\x01");
  for (std::size_t piece : {1, 3, 7, 1000}) {
    CHECK(read_all(before, piece) == "0:/k,v:0 5:/k:0 2:/k:0 ");
    CHECK(read_all(since, piece) == "0:/k,v:0 5:/k:0 2:/k:0 12::16909060 ");
  }
  CHECK(read_all(of(3, text("n") + number(-5)) + of(8, text("n")) + of(11, number(1) + text("a") + text("b")), 5) ==
        "3:n:-5 7:n:0 10:a,b:0 ");
}

TEST_CASE("what is no request is an error that says what it is") {
  auto since = [](const std::string& bytes) { return read_all(std::string(kGreeting) + bytes, 1000); };
  CHECK(since(of(0)) == "a request of the unknown kind 0");
  CHECK(since(of(17)) == "a request of the unknown kind 17");
  CHECK(read_all(of(7, text("k")), 1000) == "a request to watch a key");
  CHECK(read_all(of(13), 1000) == "a request of the unknown kind 13");
  CHECK(since(of(1, number(8193))) == "a key of 8193 bytes; at most 8192");
  CHECK(since(of(1, text("k") + number(8388609))) == "a value of 8388609 bytes; at most 8388608");
  CHECK(since(of(5, number(131073))) == "a request with 131073 keys; at most 131072");
  CHECK(since(of(5, number(-1))) == "a request with 18446744073709551615 keys; at most 131072");
}

TEST_CASE("a change is the same behind its way to another shell; what was cut is refused") {
  std::string bytes;
  const std::vector<StoreRequest> all{
      {Asked::set, {"k", "v"}, 0}, {Asked::add, {"n"}, -3}, {Asked::multi_set, {"a", "", "b", "c"}, 0}};
  for (const auto& each : all) encode_store_request(bytes, each);
  std::string_view rest = bytes;
  for (const auto& each : all) {
    auto read = decode_store_request(rest);
    REQUIRE(read);
    CHECK(read->kind == each.kind);
    CHECK(read->words == each.words);
    CHECK(read->number == each.number);
  }
  CHECK(rest.empty());
  for (std::size_t size = 1; size < 20; ++size) {
    std::string_view cut = std::string_view(bytes).substr(0, size);
    CHECK_FALSE(decode_store_request(cut));
  }
  std::string none;
  encode_store_request(none, {Asked::set, {"k"}, 0});
  std::string_view without = none;
  CHECK_FALSE(decode_store_request(without));
}

TEST_CASE("the store has room for so much, and what does not fit changes nothing") {
  StoreKeys keys;
  const std::string big(StoreRequests::kMaxValue, 'x');
  for (int i = 0; i < 7; ++i) REQUIRE(keys.change({Asked::set, {fmt::format("{}", i), big}, 0}));
  CHECK_FALSE(keys.change({Asked::set, {"7", big}, 0}));
  CHECK_FALSE(keys.change({Asked::append, {"6", big}, 0}));
  CHECK_FALSE(keys.change({Asked::queue_push, {"q", big}, 0}));
  CHECK_FALSE(keys.change({Asked::multi_set, {"a", "b", "7", big}, 0}));
  CHECK_FALSE(keys.has("a"));
  CHECK(keys.change({Asked::set, {"0", "small"}, 0}));
  CHECK(keys.change({Asked::delete_key, {"1"}, 0}));
  CHECK(keys.change({Asked::set, {"7", big}, 0}));
  CHECK_FALSE(keys.change({Asked::add, {"0"}, 1}));
  REQUIRE(keys.change({Asked::set, {"n", fmt::format("{}", INT64_MAX)}, 0}));
  CHECK_FALSE(keys.change({Asked::add, {"n"}, 1}));
}

TEST_CASE("all of a store can be written in pieces, and read again") {
  StoreKeys keys;
  for (int i = 0; i < 100; ++i) REQUIRE(keys.change({Asked::set, {fmt::format("{}", i), "value"}, 0}));
  for (const char* each : {"1", "2", "3"}) REQUIRE(keys.change({Asked::queue_push, {"q", each}, 0}));
  StoreKeys again;
  std::size_t pieces = 0;
  keys.write(200, [&](const std::string& piece) {
    ++pieces;
    REQUIRE(again.read(piece));
  });
  CHECK(pieces > 5);
  CHECK(again.answer({Asked::count_keys, {}, 0}) == number(100));
  CHECK(again.answer({Asked::get, {"57"}, 0}) == text("value"));
  for (const char* each : {"1", "2", "3"})
    CHECK(*again.change({Asked::queue_pop, {"q"}, 0}) == number('4' - *each) + text(each));
}

TEST_CASE("what a client of one shell sets, one of another gets; who waits is told") {
  Stores all(3);
  all.clients[2]->send(of(6, number(2) + text("a") + text("b")));
  CHECK(all.waits(2));
  all.clients[0]->send(of(1, text("a") + text("1")));
  CHECK(all.waits(2));
  all.clients[1]->send(of(4, text("b") + number(7)));
  CHECK(all.gets(1, number(7)));
  CHECK(all.gets(2, std::string(1, '\0')));
  all.clients[2]->send(of(3, text("a")) + of(3, text("b")) + of(7));
  CHECK(all.gets(2, text("1") + text("7") + number(2)));
  // Its own changes first, though they have to go to all.
  all.clients[2]->send(of(1, text("c") + text("2")) + of(3, text("c")));
  CHECK(all.gets(2, text("2")));
}

TEST_CASE("of those that wait for a queue each element goes to one; the others wait on") {
  Stores all(3);
  const std::string pop = of(6, number(1) + text("q"));
  for (std::uint32_t i : {1U, 2U}) all.clients[i]->send(pop);
  CHECK(all.waits(1));
  all.clients[0]->send(of(14, text("q") + text("one")));
  for (std::uint32_t i : {1U, 2U}) CHECK(all.gets(i, std::string(1, '\0')));
  for (std::uint32_t i : {1U, 2U}) all.clients[i]->send(of(15, text("q")));
  std::string come[3];
  REQUIRE(all.go_on_until([&] {
    for (std::uint32_t i : {1U, 2U}) come[i] += all.clients[i]->come();
    return !come[1].empty() || !come[2].empty();
  }));
  const std::uint32_t other = come[1].empty() ? 1 : 2;
  CHECK(come[3 - other] == number(1) + text("one"));
  CHECK(all.waits(other));
  all.clients[0]->send(of(14, text("q") + text("two")));
  CHECK(all.gets(other, number(1) + text("two")));
}

TEST_CASE("a wait that is given up is answered as such, and not once more") {
  Stores all(2);
  all.clients[0]->send(of(6, number(1) + text("k")) + of(12));
  CHECK(all.gets(0, std::string(1, '\1')));
  all.clients[1]->send(of(1, text("k") + text("v")));
  CHECK(all.waits(0));
}

TEST_CASE("who joins late gets what was set before, while it was asked for, and after") {
  Stores all(2);
  const bool after_a_restart = GENERATE(false, true);
  if (after_a_restart) {
    all.stores[0]->begin_again(1);
    all.clients[0] = std::make_unique<StoreClient>(*all.stores[0]);
  }
  all.clients[0]->send(of(1, text("before") + text("1")) + of(14, text("q") + text("e")) + of(13, "abcd"));
  REQUIRE(all.gets(0, "abcd"));
  // As if shell 1 had not been there until now.
  all.stores[1] = std::make_unique<TorchStore>(all.job[1], all.plugin);
  REQUIRE(all.stores[1]->listen(0));
  all.clients[1] = std::make_unique<StoreClient>(*all.stores[1]);
  all.clients[1]->send(of(7));
  REQUIRE(all.stores[1]->catch_up());
  all.clients[0]->send(of(1, text("meanwhile") + text("2")) + of(13, "efgh"));
  CHECK(all.gets(0, "efgh"));
  all.clients[1]->send(of(6, number(3) + text("before") + text("meanwhile") + text("q")) + of(3, text("before")));
  CHECK(all.gets(1, number(2) + std::string(1, '\0') + text("1")));
  all.clients[1]->send(of(4, text("own") + number(5)));
  CHECK(all.gets(1, number(5)));
}

TEST_CASE("when all start again the store is empty, also for what an earlier start has still sent") {
  Stores all(2);
  all.clients[0]->send(of(1, text("old") + text("1")) + of(13, "abcd"));
  REQUIRE(all.gets(0, "abcd"));
  all.clients[0]->send(of(1, text("late") + text("1")));
  all.job[0].loop().poll();  // it is on its way
  for (std::uint32_t i : {1U, 0U}) {
    all.stores[i]->begin_again(1);
    all.clients[i] = std::make_unique<StoreClient>(*all.stores[i]);
  }
  all.clients[1]->send(of(1, text("new") + text("2")) + of(7));
  CHECK(all.gets(1, number(1)));
  all.clients[0]->send(of(7));
  CHECK(all.gets(0, number(1)));
}
