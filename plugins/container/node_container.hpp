// SPDX-License-Identifier: Apache-2.0
//
// The image on this node, which is brought if it is not there, by one process of the host at a time; and with
// podman the container that tasks enter: its first process is the keeper (keeper.c), which ends with the socket.
//
//   start -> podman run -> on_ready -> end -> on_gone
//              |  ^
//     no image v  | brought
//            podman pull
//
// Other runtimes make a container for each task, so that it is ready when the image is there.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "event/children.hpp"
#include "event/loop.hpp"
#include "plugins/container/setup.hpp"
#include "task/subprocess.hpp"

namespace nacre::plugins {

class NodeContainer {
 public:
  struct Callbacks {
    std::function<void(const ImageVariables&)> on_ready;
    std::function<void(const Error&)> on_failed;  // it will not be ready
    std::function<void()> on_gone;                // removed, or it has ended by itself; after on_ready only
    std::function<void(const std::string&)> on_progress;
  };
  // `loop` and `children` have to outlive it. `variables`: of podman, over this process's own.
  NodeContainer(event::Loop& loop, event::Children& children, job::Environment variables, Callbacks callbacks)
      : loop_(loop), children_(children), variables_(std::move(variables)), callbacks_(std::move(callbacks)) {}
  ~NodeContainer() { end(); }
  NodeContainer(const NodeContainer&) = delete;
  NodeContainer& operator=(const NodeContainer&) = delete;

  struct Place {
    std::string directory;  // of the job on this node
    std::string host;       // for messages
    std::string name;       // no other shell's
  };
  Result<void> start(job::ContainerRuntime runtime, ContainerSetup setup, const Place& place);
  [[nodiscard]] const std::string& image() const { return setup_.image; }  // as the runtime finds it, once ready
  // It goes, and what brings its image is killed. `on_gone` is called if it was ready.
  void end();
  // Removes what earlier jobs have left, beside the tasks.
  void sweep();
  [[nodiscard]] bool runs() const { return run_ != nullptr && !run_->exited(); }
  [[nodiscard]] bool is_ready() const { return is_ready_; }
  // What tasks enter, once podman's is ready; without variables and directory.
  [[nodiscard]] const task::Container& entry() const { return entry_; }

 private:
  Result<void> listen(const std::string& directory);
  Result<void> run();
  [[nodiscard]] task::Command command_of(std::vector<std::string> words) const;
  Result<std::unique_ptr<task::Subprocess>> start_program(std::vector<std::string> words, bool is_run);
  void read(task::Subprocess& process);
  void accept();
  Result<ImageVariables> take(UniqueFd connection);
  void run_ended();
  Result<void> lock_or_wait();
  void brought();
  void be_ready(const ImageVariables& image);
  void fail(const std::string& what, const std::string& why);
  void set_step(std::string step);
  void tell();

  event::Loop& loop_;
  event::Children& children_;
  job::Environment variables_;
  Callbacks callbacks_;
  job::ContainerRuntime runtime_ = job::ContainerRuntime::podman;
  ContainerSetup setup_;
  std::vector<std::string> bring_words_;
  Keeper keeper_;
  std::string host_, image_;  // as the user has named it
  UniqueFd listener_, connection_, process_, lock_;
  std::optional<event::Poll> incoming_;
  std::unique_ptr<task::Subprocess> run_, bring_, sweep_;
  std::optional<event::Timer> progress_, retry_;
  std::string step_, out_, err_;  // what the program that runs has written
  double begun_ = 0;
  bool was_brought_ = false, is_ready_ = false, is_ending_ = false, has_failed_ = false;
  task::Container entry_;
};

}  // namespace nacre::plugins
