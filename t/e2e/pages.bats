#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The pages for people show what really happens: each of their commands is run as it is printed.
load lib.bash

page() { # LEAST PAGE: runs the page's commands, which are at least LEAST
  PATH=$(dirname "$NACRE_SHELL"):$NACRE_BUILD_DIR:$PATH run python3 "$NACRE_SOURCE_DIR/t/e2e/page_examples.py" --least "$1" "$NACRE_SOURCE_DIR/$2"
  echo "$output"
  [ "$status" -eq 0 ]
}

@test "README.md" { page 8 README.md; }
@test "nacre-jobspec(5)" { page 11 doc/man/nacre-jobspec.5.scd; }
@test "nacre-resources(5)" { page 10 doc/man/nacre-resources.5.scd; }

@test "nacre-affinity(7)" { page 5 doc/man/nacre-affinity.7.scd; }

# bats test_tags=long
@test "nacre-elastic(7)" { page 18 doc/man/nacre-elastic.7.scd; }

# bats test_tags=long
@test "nacre-training(7)" {
  /usr/bin/python3 -c 'import torch' || { echo "python3-torch is needed"; return 1; }
  PATH=/usr/bin:$PATH page 9 doc/man/nacre-training.7.scd
}

@test "nacre-grow(1)" { page 4 doc/man/nacre-grow.1.scd; }

@test "nacre-flux(7)" { page 3 doc/man/nacre-flux.7.scd; }

@test "an example that prints something else is found" {
  printf '# Page\n\n```console\n$ echo one; echo three\none\ntwo\n```\n' >page.md
  run python3 "$NACRE_SOURCE_DIR/t/e2e/page_examples.py" page.md
  [ "$status" -eq 1 ]
  [[ $output == *"page.md:4: echo one; echo three"*"1 commands, 1 print something else"* ]]
}
