// SPDX-License-Identifier: Apache-2.0
#include "job/container_option.hpp"

#include "catch.hpp"

#include "base/json.hpp"

using namespace nacre;
using job::ContainerOption;
using job::ContainerRuntime;

namespace {

Result<std::optional<ContainerOption>> read(const char* json) {
  job::Options options;
  options.set("container", Json::parse(json));
  return ContainerOption::read(options);
}

std::string error_of(const char* json) {
  auto option = read(json);
  return option ? "none" : option.error().message;
}

}  // namespace

TEST_CASE("container: as text, and as members") {
  ContainerOption text = **read(R"("debian:12,bind=/a:/b,bind=/c/:/d/:ro,env=X,runtime=apptainer")");
  ContainerOption members =
      **read(R"({"image": "debian:12,bind=/a:/b", "bind": ["/c/:/d:ro"], "env": "X", "runtime": "apptainer"})");
  for (const ContainerOption& each : {text, members}) {
    CHECK(each.image == "debian:12");
    CHECK(each.binds == std::vector<job::ContainerBind>{{"/a", "/b"}, {"/c/", "/d", true}});
    CHECK(each.variables == std::vector<std::string>{"X"});
    CHECK(each.runtime == ContainerRuntime::apptainer);
  }
  CHECK_FALSE((*read(R"("x,runtime=podman,runtime=auto")"))->runtime);
  CHECK((*read(R"("docker://x/y@sha256:00")"))->image == "docker://x/y@sha256:00");
}

TEST_CASE("container: off is no container") {
  CHECK_FALSE(*ContainerOption::read(job::Options()));
  for (const char* each : {R"("off")", "false", "null", R"({"image": "off"})"}) CHECK_FALSE(*read(each));
}

TEST_CASE("container: what cannot be meant is named") {
  CHECK(error_of("1") == "container: expected a string, got 1");
  CHECK(error_of(R"("")").find("expected the name of an image") != std::string::npos);
  CHECK(error_of(R"("-v")").find("expected the name of an image") != std::string::npos);
  CHECK(error_of(R"({"bind": []})").starts_with("container"));
  CHECK(error_of(R"({"image": "x", "binds": []})").starts_with("container"));
  CHECK(error_of(R"("x,y")") == "container: expected NAME=VALUE behind a comma, got 'y'");
  CHECK(error_of(R"("x,binds=/a:/b")") ==
        "container: there is no 'binds'; did you mean bind?; container has bind, env, runtime");
  CHECK(error_of(R"("x,bind=/a")") ==
        "container: bind='/a': expected SOURCE:TARGET, two paths with a colon between");
  CHECK(error_of(R"("x,bind=a:/b")") == "container: bind='a:/b': both paths have to be absolute");
  CHECK(error_of(R"("x,bind=/a:b")") == "container: bind='/a:b': both paths have to be absolute");
  CHECK(error_of(R"("x,bind=/a:/b:rw")") ==
        "container: bind='/a:/b:rw': expected SOURCE:TARGET or SOURCE:TARGET:ro");
  CHECK(error_of(R"("x,bind=/a://")") == "container: bind='/a://': the target may not be the root");
  CHECK(error_of(R"("x,bind=/a:/b,bind=/c:/b")") ==
        "container: bind='/c:/b': another one has /b as its target, too");
  CHECK(error_of(R"("x,env=")") == "container: env='': expected the name of a variable");
  CHECK(error_of(R"("x,runtime=padman")") ==
        "container: runtime='padman': expected auto or podman, apptainer, enroot, docker; did you mean podman?");
}
