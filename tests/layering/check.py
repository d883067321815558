#!/usr/bin/env python3
"""Check that includes point down only, and that each third party is included only where it may be.

    check.py ROOT         report every wrong include below ROOT, exit 1 if there is one
    check.py --self-test  plant wrong files in a temporary folder and see that each is found

Debian puts all headers on the default path, so link targets alone do not stop a wrong include.
"""

import re
import sys
import tempfile
from pathlib import Path

BASE = ("kube", "base")
# The rooms of the agent, each above those before it.
ROOMS = ("device", "claim", "api", "share", "cdi", "source", "nvml", "prepare", "report")

# Folder -> the folders it may include (docs: "Direction of dependency").
MAY_INCLUDE = {
    "base": {"base"},
    "kube": {"kube", "base"},
    "kube/client": {"kube/client", "kube", "base"},
    "translate": {"translate", "kube", "base"},
    "certs": {"certs", "base"},
    "http": {"http", "base"},
    "server": {"server", "http", "certs", "translate", "kube/client", "kube", "base"},
    "cli": {"cli", "certs", "translate", "kube/client", "kube", "base"},
    "program": {"program", "server", "cli", "http", "certs", "translate", "kube/client", "kube", "base"},
    "agent": {"agent", *BASE},
    **{f"agent/{room}": {"agent", *(f"agent/{each}" for each in ROOMS[: number + 1]), *BASE} for number, room in enumerate(ROOMS)},
    "agent/rpc": {"agent/rpc", "agent", *(f"agent/{room}" for room in ROOMS), "base"},
    "agent/process": {"agent/process", "agent/rpc", "agent", *(f"agent/{room}" for room in ROOMS), "http", "kube/client", *BASE},
    "agent/program": {"agent/program", "agent/process", "base"},
    "preload": {"preload"},
}
SHARED_BY_AGENT_AND_PRELOAD = "preload/abi.h"
MAX_BEAST_FILES = 5

# What is included -> where it may be.
THIRD_PARTY = [
    (r"rapidjson/", {"base"}, "RapidJSON only behind base/json.hpp"),
    (r"yaml\.h$", {"kube"}, "libyaml only in kube/"),
    (r"boost/", {"kube/client", "certs", "http", "server", "cli", "program", "agent/process"}, "Boost not in pure folders"),
    (r"(grpcpp|google/protobuf)/", {"agent/rpc"}, "gRPC only behind agent/rpc/"),
    (r"openssl/", {"base", "kube/client", "certs", "server"}, "OpenSSL not in pure folders"),
    (r"CLI/", {"base"}, "CLI11 only behind base/command_line.hpp"),
    (r"(doctest|nlohmann)/", set(), "only in tests/"),
    (r"(fstream|iostream|thread|mutex|condition_variable|chrono|random|filesystem)$|(sys/(socket|stat)|unistd|fcntl)\.h$",
     set(MAY_INCLUDE) - {"kube", "translate"}, "kube/ and translate/ are pure: no clock, file, socket or thread"),
]  # fmt: skip

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def folder_of(path: str) -> str | None:
    """The folder of the architecture that a path lies in."""
    inside = [folder for folder in MAY_INCLUDE if path.startswith(folder + "/")]
    return max(inside, key=len, default=None)


def wrong_includes(root: Path) -> list[str]:
    wrong, beast_files = [], []
    for path in sorted(path for top in {f.split("/")[0] for f in MAY_INCLUDE} for path in (root / top).rglob("*")):
        if path.suffix not in (".hpp", ".h", ".cpp", ".c", ".inc"):
            continue
        name = path.relative_to(root).as_posix()
        folder = folder_of(name)
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".hpp" and not re.match(r"#pragma once\n// \S", text):
            wrong.append(f"{name}: a header starts with #pragma once and a sentence on what it is for")
        found = INCLUDE.findall(text)
        for bracket, included in found:
            wrong += [f"{name}: {reason}" for reason in faults(folder, path.suffix, bracket, included)]
        if any(re.match(r"boost/beast", included) for _, included in found):
            beast_files.append(name)
    if len(beast_files) > MAX_BEAST_FILES:
        wrong.append(f"{len(beast_files)} files include Beast, {MAX_BEAST_FILES} may: {', '.join(beast_files)}")
    return wrong


def faults(folder: str, suffix: str, bracket: str, included: str) -> list[str]:
    found = []
    if bracket == '"':
        target = folder_of(included)
        agents = folder in ("agent/cdi", "agent/share") and included == SHARED_BY_AGENT_AND_PRELOAD
        if target is None:
            found.append(f'"{included}" is not a path from the root of the tree')
        elif target not in MAY_INCLUDE[folder] and not agents:
            found.append(f'{folder}/ may not include "{included}"')
    for pattern, allowed, reason in THIRD_PARTY:
        if re.match(pattern, included) and folder not in allowed:
            found.append(f"<{included}>: {reason}")
    if re.match(r"boost/beast", included) and suffix == ".hpp":
        found.append(f"<{included}>: Beast never in headers")
    return found


HEADER = "#pragma once\n// For the test.\n"
PLANTED = {
    "base/up.hpp": HEADER + '#include "kube/name_rules.hpp"\n',
    "kube/up.cpp": '#include "kube/client/rest.hpp"\n',
    "translate/up.cpp": '  #  include "server/router.hpp"\n',
    "certs/up.cpp": '#include "kube/client/rest.hpp"\n',
    "server/sideways.cpp": '#include "cli/options.hpp"\n',
    "cli/sideways.cpp": '#include "server/options.hpp"\n',
    "preload/up.cpp": '#include "base/result.hpp"\n',
    "kube/relative.cpp": '#include "names.hpp"\n',
    "kube/json.cpp": "#include <rapidjson/document.h>\n",
    "kube/client/yaml.cpp": "#include <yaml.h>\n",
    "translate/clock.cpp": "#include <chrono>\n",
    "translate/asio.hpp": HEADER + "#include <boost/asio/awaitable.hpp>\n",
    "server/beast.hpp": HEADER + "#include <boost/beast/http.hpp>\n",
    "server/test.cpp": "#include <doctest/doctest.h>\n",
    "base/bare.hpp": "#include <string>\n",
}
FINE = {
    "kube/name_rules.hpp": HEADER + '#include "base/result.hpp"\n#include <string>\n',
    "server/listener.cpp": '#include "kube/client/rest.hpp"\n#include <boost/beast/http.hpp>\n// #include "cli/x.hpp"\n',
    "agent/share/folders.cpp": '#include "preload/abi.h"\n',
}


def self_test() -> list[str]:
    """What the check failed to find, or found without reason."""
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in FINE.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        missed += [f"found without reason: {line}" for line in wrong_includes(root)]
        for name, text in PLANTED.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
            if not any(line.startswith(f"{name}: ") for line in wrong_includes(root)):
                missed.append(f"not found: {name}: {text!r}")
            (root / name).unlink()
        for number in range(MAX_BEAST_FILES):
            (root / f"server/beast_{number}.cpp").write_text("#include <boost/beast/core.hpp>\n")
        if not any("files include Beast" in line for line in wrong_includes(root)):
            missed.append("not found: too many files with Beast")
    return missed


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    wrong = self_test() if sys.argv[1] == "--self-test" else wrong_includes(Path(sys.argv[1]))
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
