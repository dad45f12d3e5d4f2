# SPDX-License-Identifier: Apache-2.0
#
# For the tests of initrc files.
# shellcheck disable=SC2154 # bats sets status, output

# Writes rc.lua from standard input, and runs a job with it.
run_rc() {
  cat >rc.lua
  run nacre --initrc=rc.lua "$@"
}

# The run succeeded, and printed exactly the arguments, a line each.
says() {
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  diff <(printf '%s\n' "$@") <(printf '%s\n' "$output")
}

# A plugin NAME.so, which logs its configuration when it is loaded.
make_plugin() {
  mkdir -p "$(dirname "$1")"
  cat >plugin.c <<'END'
#define FLUX_SHELL_PLUGIN_NAME "test"
#include <flux/shell.h>
int flux_plugin_init(flux_plugin_t *p)
{
    const char *conf = flux_plugin_get_conf (p);
    shell_log ("%s %s", flux_plugin_get_name (p), conf ? conf : "-");
    return 0;
}
END
  cc -shared -fPIC -I"$NACRE_SOURCE_DIR/shell/plugin/include" -o "$1.so" plugin.c
}
