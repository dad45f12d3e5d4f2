// SPDX-License-Identifier: Apache-2.0
//
// How a job is tied to the process that has started it, `nacre run` or `nacre launch`: as a rule it ends when that
// goes. Once it is detached its terminal output goes to a file beside its entry in the list of jobs.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "plugin/launched_input.hpp"

namespace nacre::plugin {

class Launched {
 public:
  virtual ~Launched() = default;

  // `nacre run -d`: its launcher waits until detach() is called.
  [[nodiscard]] virtual bool starts_detached() const = 0;
  // Once all tasks have started the job detaches when its launcher goes. From now on output that nobody reads any
  // more goes to the file.
  virtual void outlive_launcher() = 0;
  // The job can be found and reached: only now may its launcher leave it.
  virtual void can_be_found() = 0;
  // Does nothing if it is detached. An error: there is no file; the job is as it was.
  virtual Result<void> detach() = 0;

  // The job's standard input, if the launcher sends it; else null. For as long as this object is there.
  virtual LaunchedInput* input() { return nullptr; }

  [[nodiscard]] virtual bool is_detached() const = 0;
  // Where the file is, or "": the entry should be there too.
  [[nodiscard]] virtual std::string directory() const = 0;
  // Bytes that could not be written to it.
  [[nodiscard]] virtual std::uint64_t lost_output() const = 0;
};

}  // namespace nacre::plugin
