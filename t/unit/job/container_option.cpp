// SPDX-License-Identifier: Apache-2.0
#include "job/container_option.hpp"

#include "catch.hpp"

using namespace nacre;
using job::ContainerOption;
using job::ContainerRuntime;

namespace {

Result<std::optional<ContainerOption>> read_container(const char* json) {
  job::Options options;
  options.set("container", Json::parse(json));
  return ContainerOption::read(options);
}

std::string container_error(const char* json) {
  auto option = read_container(json);
  return option ? "none" : option.error().message;
}

}  // namespace

TEST_CASE("container: as text, and as members") {
  ContainerOption text = **read_container(R"("debian:12,bind=/a:/b,bind=/c/:/d/:ro,env=X,runtime=apptainer")");
  ContainerOption members = **read_container(
      R"({"image": "debian:12,bind=/a:/b", "bind": ["/c/:/d:ro"], "env": "X", "runtime": "apptainer"})");
  for (const ContainerOption& each : {text, members}) {
    CHECK(each.image == "debian:12");
    CHECK(each.binds == std::vector<job::ContainerBind>{{"/a", "/b"}, {"/c/", "/d", true}});
    CHECK(each.variables == std::vector<std::string>{"X"});
    CHECK(each.runtime == ContainerRuntime::apptainer);
  }
  CHECK_FALSE((*read_container(R"("x,runtime=podman,runtime=auto")"))->runtime);
  CHECK((*read_container(R"("docker://x/y@sha256:00")"))->image == "docker://x/y@sha256:00");
}

TEST_CASE("container: off is no container") {
  CHECK_FALSE(*ContainerOption::read(job::Options()));
  for (const char* each : {R"("off")", "false", "null", R"({"image": "off"})"}) CHECK_FALSE(*read_container(each));
}

TEST_CASE("container: what cannot be meant is named") {
  CHECK(container_error("1") == "container: expected a string, got 1");
  CHECK(container_error(R"("")").find("expected the name of an image") != std::string::npos);
  CHECK(container_error(R"("-v")").find("expected the name of an image") != std::string::npos);
  CHECK(container_error(R"({"bind": []})").starts_with("container"));
  CHECK(container_error(R"({"image": "x", "binds": []})").starts_with("container"));
  CHECK(container_error(R"("x,y")") == "container: expected NAME=VALUE behind a comma, got 'y'");
  CHECK(container_error(R"("x,binds=/a:/b")") ==
        "container: there is no 'binds'; did you mean bind?; container has bind, env, runtime");
  CHECK(container_error(R"("x,bind=/a")") ==
        "container: bind='/a': expected SOURCE:TARGET, two paths with a colon between");
  CHECK(container_error(R"("x,bind=a:/b")") == "container: bind='a:/b': both paths have to be absolute");
  CHECK(container_error(R"("x,bind=/a:b")") == "container: bind='/a:b': both paths have to be absolute");
  CHECK(container_error(R"("x,bind=/a:/b:rw")") ==
        "container: bind='/a:/b:rw': expected SOURCE:TARGET or SOURCE:TARGET:ro");
  CHECK(container_error(R"("x,bind=/a://")") == "container: bind='/a://': the target may not be the root");
  CHECK(container_error(R"("x,bind=/a:/b,bind=/c:/b")") ==
        "container: bind='/c:/b': another one has /b as its target, too");
  CHECK(container_error(R"("x,env=")") == "container: env='': expected the name of a variable");
  CHECK(container_error(R"("x,runtime=padman")") ==
        "container: runtime='padman': expected auto or podman, apptainer, enroot, docker; did you mean podman?");
}
