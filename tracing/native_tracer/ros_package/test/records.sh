# records.sh PROGRAM FOLDER: what the program emits lies in the folder, 17 bytes of each event or more.
set -eu
rm -rf "$2"
mkdir -m 700 "$2"
ROSLENS_TRACE_FOLDER=$2 "$1"
find "$2" -name metadata -size +0 | grep -q .
bytes=$(find "$2" -type f ! -name metadata -exec cat {} + | tr -d '\0' | wc -c)
if [ "$bytes" -lt 60000 ]; then
  echo "only $bytes bytes were recorded"
  exit 1
fi
