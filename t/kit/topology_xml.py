#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a machine as XML of hwloc 2, by counts: for tests of what machines do that are not at hand.

Cpus are numbered as on x86 servers: the first thread of each core in order, then the second ones. Devices of a NUMA node are pairs
of a gpu and a network card behind a PCI switch of their own, all switches of a NUMA node behind one host bridge.
"""
import argparse


class Bits:
    """A set as hwloc writes it."""

    def __init__(self, ids):
        self.ids = sorted(ids)

    def __str__(self):
        value = sum(1 << i for i in self.ids)
        words = []
        while value or not words:
            words.append(f"0x{value & 0xffffffff:08x}")
            value >>= 32
        return ",".join(reversed(words))


class Machine:
    def __init__(self, options):
        self.options = options
        self.lines = []
        self.gp = 0
        self.bus = 0
        self.cores = options.packages * options.numas * options.l3s * options.cores
        self.missing = {int(i) for part in options.without for i in expand(part)}

    def threads(self, core):
        return [core + i * self.cores for i in range(self.options.threads)]

    def open(self, indent, type_name, cpus=None, nodes=None, ends=False, **more):
        self.gp += 1
        text = f'{"  " * indent}<object type="{type_name}"'
        if cpus is not None:
            for name, value in (("cpuset", Bits(cpus)), ("complete_cpuset", Bits(cpus)), ("nodeset", Bits(nodes)), ("complete_nodeset", Bits(nodes))):
                text += f' {name}="{value}"'
            if type_name == "Machine":
                text += f' allowed_cpuset="{Bits(cpus)}" allowed_nodeset="{Bits(nodes)}"'
        text += f' gp_index="{self.gp}"'
        for name, value in more.items():
            text += f' {name}="{value}"'
        self.lines.append(text + ("/>" if ends else ">"))

    def close(self, indent):
        self.lines.append(f'{"  " * indent}</object>')

    def pci(self, indent, name, class_id, vendor, children):
        self.bus += 1
        self.open(indent, "PCIDev", pci_busid=f"0000:{self.bus:02x}:00.0", pci_type=f"{class_id} [{vendor}:0000] [0000:0000] 00", pci_link_speed="0.0")
        for child_type, child in children:
            self.open(indent + 1, "OSDev", name=child, osdev_type=child_type)
            if child_type == 3:
                self.lines.append(f'{"  " * (indent + 2)}<info name="Port1State" value="{1 if name in self.options.down else 4}"/>')
            self.close(indent + 1)
        self.close(indent)

    def devices(self, indent, first, count):
        if not count:
            return
        self.bus += 1
        start = self.bus
        self.open(indent, "Bridge", bridge_type="0-1", depth=0, bridge_pci=f"0000:[{start:02x}-ff]")
        for i in range(first, first + count):
            self.bus += 1
            self.open(
                indent + 1,
                "Bridge",
                bridge_type="1-1",
                depth=1,
                bridge_pci=f"0000:[{self.bus + 1:02x}-{self.bus + 9:02x}]",
                pci_busid=f"0000:{self.bus:02x}:00.0",
                pci_type="0604 [8086:0000] [0000:0000] 00",
                pci_link_speed="0.0",
            )
            self.pci(indent + 2, f"gpu{i}", "0302", "10de", [])
            if self.options.network == "ib":
                self.pci(indent + 2, f"mlx5_{i}", "0207", "15b3", [(2, f"ib{i}"), (3, f"mlx5_{i}")])
            elif self.options.network == "eth":
                self.pci(indent + 2, f"eth{i}", "0200", "8086", [(2, f"eth{i}")])
            self.close(indent + 1)
        self.close(indent)

    def print(self):
        o = self.options
        per_numa = o.l3s * o.cores
        numas = o.packages * o.numas
        every = [cpu for core in range(self.cores) if core not in self.missing for cpu in self.threads(core)]
        far = [numas] if o.far_memory else []
        all_nodes = list(range(numas)) + far
        self.open(1, "Machine", every, all_nodes, os_index=0)
        for node in far:  # memory that is near to all cpus alike
            self.open(2, "NUMANode", every, [node], ends=True, os_index=node, local_memory=1 << 30)
        for package in range(o.packages):
            cores = range(package * o.numas * per_numa, (package + 1) * o.numas * per_numa)
            self.group(2, "Package", cores, range(package * o.numas, (package + 1) * o.numas), os_index=package)
            for numa in range(package * o.numas, (package + 1) * o.numas):
                self.numa(3, numa, range(numa * per_numa, (numa + 1) * per_numa))
            self.close(2)
        self.close(1)
        print('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0">')
        print("\n".join(self.lines))
        print("</topology>")

    def there(self, cores):
        return [core for core in cores if core not in self.missing]

    def group(self, indent, type_name, cores, nodes, **more):
        cpus = [cpu for core in self.there(cores) for cpu in self.threads(core)]
        self.open(indent, type_name, cpus, nodes, **more)

    def numa(self, indent, numa, cores):
        o = self.options
        memory = 0 if numa in o.no_memory else 1 << 30
        self.group(indent, "Group", cores, [numa], kind=0, subkind=0)
        self.group(indent + 1, "NUMANode", cores, [numa], os_index=numa, local_memory=memory)
        self.close(indent + 1)
        for l3 in range(o.l3s):
            of_l3 = range(cores.start + l3 * o.cores, cores.start + (l3 + 1) * o.cores)
            if not self.there(of_l3):
                continue
            self.group(indent + 1, "L3Cache", of_l3, [numa], cache_size=1 << 25, depth=3, cache_linesize=64, cache_associativity=16, cache_type=0)
            for core in self.there(of_l3):
                self.group(indent + 2, "Core", [core], [numa], os_index=core)
                for cpu in self.threads(core):
                    self.open(indent + 3, "PU", [cpu], [numa], ends=True, os_index=cpu)
                self.close(indent + 2)
            self.close(indent + 1)
        self.devices(indent + 1, numa * o.gpus, o.gpus)
        self.close(indent)


def expand(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, count, what in (
        ("packages", 1, "in the machine"),
        ("numas", 1, "NUMA nodes in a package"),
        ("l3s", 1, "L3 caches in a NUMA node"),
        ("cores", 4, "in an L3 cache"),
        ("threads", 1, "of a core"),
        ("gpus", 0, "with a network card each, in a NUMA node"),
    ):
        parser.add_argument(f"--{name}", type=int, default=count, metavar="N", help=what)
    parser.add_argument("--network", choices=["ib", "eth", "none"], default="ib")
    parser.add_argument("--down", action="append", default=[], metavar="NAME", help="a card without a link")
    parser.add_argument("--without", action="append", default=[], metavar="FIRST[-LAST]", help="cores that are not there")
    parser.add_argument("--no-memory", action="append", type=int, default=[], metavar="NUMA", help="a NUMA node that has no memory")
    parser.add_argument("--far-memory", action="store_true", help="a NUMA node more, without cores of its own")
    Machine(parser.parse_args()).print()


main()
