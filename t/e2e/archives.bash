# SPDX-License-Identifier: Apache-2.0
#
# Trees to be archived, and archives that mean ill, for the tests of archives.

declare -F copy_for_all >/dev/null || load lib.bash

export TZ=UTC

archive() { "$NACRE_BUILD_DIR/nacre" archive "$@"; }

# In the test's folder: a tree `from`, archives in `ar`.
make_tree() {
  export NACRE_ARCHIVE_DIR=$work/ar
  mkdir -p from/data
  echo hello >from/file
  echo 1,2 >from/data/x.csv
  ln -sfn ../file from/data/link
  touch -d @1600000000 from/file
}

# An archive NAME that Python makes of the TarInfo lines on standard input; `add(name, type, data="", **attributes)`.
craft() {
  mkdir -p "$NACRE_ARCHIVE_DIR"
  { cat <<'END'; cat; echo 'tar.close()'; } | python3 - "$NACRE_ARCHIVE_DIR/$1.tar"
import io, sys, tarfile
from tarfile import REGTYPE as FILE, DIRTYPE as DIR, SYMTYPE as SYMLINK, LNKTYPE as HARDLINK, CHRTYPE, BLKTYPE, FIFOTYPE
tar = tarfile.open(sys.argv[1], "w")
def add(name, type, data="", **attributes):
    info = tarfile.TarInfo(name)
    info.type, info.size = type, len(data)
    for key, value in attributes.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data.encode()))
END
}
