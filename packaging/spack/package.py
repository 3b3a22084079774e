# SPDX-License-Identifier: BSD-3-Clause
# Recipe for Spack. Only its syntax was checked: it was not run.
# Put the directory that contains this file into a repository of recipes as packages/sluice. Then unpack or clone Sluice
# for "spack dev-build sluice@main", or install 0.1.0 in the directory of the tarball with --no-checksum.
import os

from spack.package import *


class Sluice(AutotoolsPackage, CudaPackage):
    """Compressed data-parallel training over one-sided memory: a C runtime whose ranks push sparse gradients and pull
    sparse changes of the model through shared memory, RDMA verbs or libfabric."""

    homepage = "file:///usr/share/doc/sluice/README.md"
    url = f"file://{os.getcwd()}/sluice-0.1.0.tar.xz"
    manual_download = True  # the tarball of "make dist" lies in the current directory

    license("BSD-3-Clause")

    version("main")
    version("0.1.0")

    variant("verbs", default=True, description="Transport over RDMA verbs")
    variant("libfabric", default=True, description="Transport over libfabric")
    variant("hwloc", default=True, description="Place the progress thread near its network card")
    variant("train", default=True, description="Build sluice-train")

    depends_on("c", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("pmix")
    depends_on("rdma-core@35:", when="+verbs")
    depends_on("openssl@1.1.1:", when="+verbs")
    depends_on("openssl@1.1.1:", when="+libfabric")
    depends_on("libfabric@1.17:", when="+libfabric")
    depends_on("hwloc@2:", when="+hwloc")
    depends_on("openblas", when="+train")
    depends_on("zlib-api", when="+train")
    depends_on("cuda@12:", when="+cuda")
    conflicts("cuda_arch=none", when="+cuda", msg="name the GPUs: cuda_arch=80,90")

    def autoreconf(self, spec, prefix):
        Executable("./autogen.sh")()

    def configure_args(self):
        args = ["--disable-static", f"--with-pmix={self.spec['pmix'].prefix}"]
        for name in ("verbs", "libfabric", "hwloc", "train"):
            args.append(f"--with-{name}={'yes' if self.spec.satisfies('+' + name) else 'no'}")
        if self.spec.satisfies("+cuda"):
            archs = self.spec.variants["cuda_arch"].value
            args.append(f"--with-cuda={self.spec['cuda'].prefix}")
            args.append("GENCODE=" + " ".join(f"-gencode arch=compute_{a},code=sm_{a}" for a in archs))
        else:
            args.append("--with-cuda=no")
        return args
