// SPDX-License-Identifier: Apache-2.0
#include "pmi/spawn.hpp"

#include "world.hpp"

using namespace nacre;       // NOLINT
using namespace nacre::pmi;  // NOLINT

namespace {

// The blocks of PMI-1 in their order; the result, or "more" if further blocks have to come.
std::string of_blocks(const std::vector<std::string>& blocks) {
  Spawn spawn;
  bool complete = false;
  for (const std::string& each : blocks) {
    std::string text = "mcmd=spawn\n" + each;
    auto message = PmiMessage::parse_spawn(text);
    REQUIRE(message);
    auto added = add_spawn_block(*message, spawn);
    if (!added) return added.error().message;
    complete = *added;
  }
  return complete ? text_of(spawn) : "more";
}

std::string of_block(const std::string& block) { return of_blocks({"totspawns=1\nspawnssofar=1\n" + block}); }

std::string of_body(const std::string& fields) {
  std::string text = "cmd=spawn;" + fields;
  auto message = PmiMessage::parse_body(text);
  REQUIRE(message);
  auto spawn = read_spawn(*message);
  return spawn ? text_of(*spawn) : spawn.error().message;
}

// "KEY0=x", "KEY1=x", ...
std::string numbered(const std::string& key, std::uint32_t count, char end) {
  std::string out;
  for (std::uint32_t i = 0; i < count; ++i) out += fmt::format("{}{}=x{}", key, i, end);
  return out;
}

}  // namespace

TEST_CASE("a block of PMI-1 is a program") {
  CHECK(of_block(
            "nprocs=2\nexecname=./a b\narg1=x y\narg2=z=1\nargcnt=2\npreput_num=1\npreput_key_0=k\n"
            "preput_val_0=v w\ninfo_num=2\ninfo_key_0=path\ninfo_val_0=/bin\ninfo_key_1=wdir\ninfo_val_1=/tmp") ==
        " [2: './a b' 'x y' 'z=1' with path=/bin wdir=/tmp] preput k=v w");
  CHECK(of_block("execname=a") == " [1: 'a']");
  CHECK(of_block("argcnt=1\narg0=x\nexecname=a") == " [1: 'a' 'x']");
  CHECK(of_block("execname=a\narg1=\nargcnt=1\nunknown=1\narg=y\nargs1=z") == " [1: 'a' '']");
}

TEST_CASE("several blocks become one spawn, and each has the preput again, or the first one alone") {
  CHECK(of_blocks(
            {"totspawns=2\nspawnssofar=1\nexecname=a\npreput_num=1\npreput_key_0=k\npreput_val_0=v",
             "totspawns=2\nspawnssofar=2\nexecname=b\nnprocs=3\narg1=x\nargcnt=1\npreput_num=1\npreput_key_0=k\n"
             "preput_val_0=v"}) == " [1: 'a'] [3: 'b' 'x'] preput k=v");
  CHECK(of_blocks({"totspawns=2\nspawnssofar=1\nexecname=a\npreput_num=1\npreput_key_0=k\npreput_val_0=v",
                   "totspawns=2\nspawnssofar=2\nexecname=b"}) == " [1: 'a'] [1: 'b'] preput k=v");
  CHECK(of_blocks({"totspawns=2\nspawnssofar=1\nexecname=a\npreput_num=1\npreput_key_0=k\npreput_val_0=v",
                   "totspawns=2\nspawnssofar=2\nexecname=b\npreput_num=0"}) == " [1: 'a'] [1: 'b']");
  CHECK(of_blocks({"totspawns=2\nspawnssofar=1\nexecname=a\npreput_num=1\npreput_key_0=k\npreput_val_0=v",
                   "totspawns=2\nspawnssofar=2\nexecname=b\npreput_key_0=k\npreput_val_0=v"}) ==
        "spawn: preput_num: 0 were announced, 1 came");
  CHECK(of_blocks({"totspawns=2\nspawnssofar=1\nexecname=a"}) == "more");
}

TEST_CASE("a block out of turn is an error") {
  CHECK(of_blocks({"totspawns=2\nspawnssofar=2\nexecname=a"}) == "spawn: spawnssofar: block 2 of 2 is out of turn");
  CHECK(of_blocks({"totspawns=1\nspawnssofar=0\nexecname=a"}) == "spawn: spawnssofar: block 0 of 1 is out of turn");
  CHECK(of_blocks({"totspawns=0\nspawnssofar=1\nexecname=a"}) == "spawn: spawnssofar: block 1 of 0 is out of turn");
  CHECK(of_blocks({"totspawns=-1\nspawnssofar=1\nexecname=a"}) ==
        "spawn: spawnssofar: block 1 of -1 is out of turn");
  CHECK(of_blocks({"totspawns=3\nspawnssofar=1\nexecname=a", "totspawns=3\nspawnssofar=1\nexecname=a"}) ==
        "spawn: spawnssofar: block 1 of 3 is out of turn");
  CHECK(of_blocks({"totspawns=4096\nspawnssofar=1\nexecname=a"}) == "more");
  CHECK(of_blocks({"totspawns=4097\nspawnssofar=1\nexecname=a"}) == "spawn: totspawns: more than 4096");
  CHECK(of_blocks({"spawnssofar=1\nexecname=a"}) == "spawn: no field 'totspawns'");
  CHECK(of_blocks({"totspawns=1\nexecname=a"}) == "spawn: no field 'spawnssofar'");
  CHECK(of_blocks({"totspawns=x\nspawnssofar=1\nexecname=a"}) == "spawn: totspawns: expected a number, got 'x'");
}

TEST_CASE("what was announced has to come") {
  CHECK(of_block("nprocs=1") == "spawn: execname: expected a program");
  CHECK(of_block("execname=") == "spawn: execname: expected a program");
  CHECK(of_block("execname=a\nargcnt=2\narg1=x") == "spawn: argcnt: 2 were announced, 1 came");
  CHECK(of_block("execname=a\narg1=x") == "spawn: argcnt: 0 were announced, 1 came");
  CHECK(of_block("execname=a\ninfo_num=1") == "spawn: info_num: 1 were announced, 0 came");
  CHECK(of_block("execname=a\npreput_num=1") == "spawn: preput_num: 1 were announced, 0 came");
  CHECK(of_block("execname=a\npreput_key_0=k") == "spawn: preput_num: 0 were announced, 1 came");
  CHECK(of_block("execname=a\ninfo_val_0=x") == "spawn: info_val_0: a value without a key");
  CHECK(of_block("execname=a\npreput_val_0=x") == "spawn: preput_val_0: a value without a key");
  CHECK(of_block("execname=a\nnprocs=-1") == "spawn: nprocs: expected a number up to 4096, got '-1'");
  CHECK(of_block("execname=a\nargcnt=x") == "spawn: argcnt: expected a number up to 4096, got 'x'");
}

TEST_CASE("the limits of a spawn") {
  CHECK(of_block("execname=a\nnprocs=4096") == " [4096: 'a']");
  CHECK(of_block("execname=a\nnprocs=4097") == "spawn: nprocs: expected a number up to 4096, got '4097'");
  CHECK(of_blocks({"totspawns=2\nspawnssofar=1\nexecname=a\nnprocs=4095",
                   "totspawns=2\nspawnssofar=2\nexecname=b"}) == " [4095: 'a'] [1: 'b']");
  CHECK(of_blocks({"totspawns=2\nspawnssofar=1\nexecname=a\nnprocs=4095",
                   "totspawns=2\nspawnssofar=2\nexecname=b\nnprocs=2"}) == "spawn: nprocs: more than 4096");
  const std::string all = std::to_string(kMaxSpawnItems);
  CHECK(of_block("execname=a\nargcnt=" + all + "\n" + numbered("arg", kMaxSpawnItems, '\n') + "b=c").size() ==
        std::string_view(" [1: 'a']").size() + kMaxSpawnItems * 4);
  CHECK(of_block("execname=a\n" + numbered("arg", kMaxSpawnItems + 1, '\n') + "b=c") ==
        "spawn: arg4096: too many arguments");
  CHECK(of_block("execname=a\n" + numbered("info_key_", kMaxSpawnItems + 1, '\n') + "b=c") ==
        "spawn: info_key_4096: too many");
  CHECK(of_block("execname=a\ninfo_num=" + all + "\n" + numbered("info_key_", kMaxSpawnItems, '\n') + "b=c")
            .starts_with(" [1: 'a' with x= "));
  CHECK(of_block("execname=a\n" + numbered("preput_key_", kMaxSpawnItems + 1, '\n') + "b=c") ==
        "spawn: preput_key_4096: too many");
  CHECK(of_block("execname=a\nargcnt=4097") == "spawn: argcnt: expected a number up to 4096, got '4097'");
}

TEST_CASE("a spawn of PMI-2 has all programs in one message") {
  CHECK(of_body("ncmds=2;preputcount=1;ppkey0=k;ppval0=v;;w;subcmd=./a;maxprocs=2;argc=2;argv0=x y;argv1=;"
                "infokeycount=1;infokey0=path;infoval0=/bin;subcmd=b;maxprocs=1;argc=0;") ==
        " [2: './a' 'x y' '' with path=/bin] [1: 'b'] preput k=v;w");
  CHECK(of_body("ncmds=1;subcmd=a;") == " [1: 'a']");
  CHECK(of_body("ncmds=1;maxprocs=7;subcmd=a;") == " [1: 'a']");
  CHECK(of_body("ncmds=1;subcmd=a;argc=1;") == "spawn: argc: 1 were announced, 0 came");
  CHECK(of_body("ncmds=2;subcmd=a;argc=1;subcmd=b;") == "spawn: argc: 1 were announced, 0 came");
  CHECK(of_body("ncmds=1;subcmd=a;infokey0=k;") == "spawn: infokeycount: 0 were announced, 1 came");
  CHECK(of_body("ncmds=1;preputcount=2;ppkey0=k;subcmd=a;") == "spawn: preputcount: 2 were announced, 1 came");
  CHECK(of_body("ncmds=2;subcmd=a;") == "spawn: ncmds: 2 were announced, 1 came");
  CHECK(of_body("ncmds=1;subcmd=a;subcmd=b;") == "spawn: ncmds: 1 were announced, 2 came");
  CHECK(of_body("ncmds=0;") == "spawn: ncmds: 0 were announced, 0 came");
  CHECK(of_body("subcmd=a;") == "spawn: no field 'ncmds'");
  CHECK(of_body("ncmds=1;subcmd=;") == "spawn: subcmd: expected a program");
  CHECK(of_body("ncmds=2;subcmd=a;maxprocs=4096;subcmd=b;") == "spawn: maxprocs: more than 4096");
  CHECK(of_body("ncmds=1;subcmd=a;infoval0=k;") == "spawn: infoval0: a value without a key");
}

TEST_CASE("the processes of a spawn are those of all programs, in their order") {
  Spawn spawn;
  CHECK(spawn.processes() == 0);
  spawn.programs = {{2, {"a"}, {}}, {0, {"b"}, {}}, {3, {"c"}, {}}};
  CHECK(spawn.processes() == 5);
  CHECK(spawn.program_of(0) == 0);
  CHECK(spawn.program_of(1) == 0);
  CHECK(spawn.program_of(2) == 2);  // the second has no process
  CHECK(spawn.program_of(4) == 2);
}

TEST_CASE("error codes are left out where they are too long, and all zeros") {
  CHECK(code_list({}).empty());
  CHECK(code_list({0, -1, 3}) == "0,-1,3");
  CHECK(code_list(std::vector<int>(400)).size() == 799);
  CHECK(code_list(std::vector<int>(401)).empty());
  std::vector<int> many(401);
  many.back() = -1;
  CHECK(code_list(many).size() == 802);
}
