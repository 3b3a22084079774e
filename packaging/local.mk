# SPDX-License-Identifier: BSD-3-Clause
# Packages, and files that "make install" writes besides programs, libraries and manual pages.
dist_doc_DATA = CITATION.cff COPYING NEWS.md README.md SECURITY.md
nobase_dist_doc_DATA = $(documents)
examplesdir = $(docdir)/examples
dist_examples_DATA = packaging/sluice.conf tests/unit/example.c
sharedir = $(datadir)/sluice
dist_share_DATA = slurm/train.sbatch doc/grafana.json
completiondir = $(datadir)/bash-completion/completions
cmakedir = $(libdir)/cmake/Sluice
nodist_cmake_DATA = packaging/cmake/SluiceConfig.cmake packaging/cmake/SluiceConfigVersion.cmake

packaging_files = packaging/apptainer/sluice.def packaging/check-deb packaging/check-rpm packaging/completion \
	packaging/debian/changelog packaging/debian/control packaging/debian/copyright \
	packaging/debian/libsluice-dev.install packaging/debian/libsluice0.install \
	packaging/debian/libsluice0.lintian-overrides packaging/debian/libsluice0.symbols packaging/debian/libsluice0-cuda.install \
	packaging/debian/python3-sluice.install packaging/debian/rules packaging/debian/sluice-doc.install \
	packaging/debian/sluice-tools.install packaging/debian/sluice-tools.lintian-overrides packaging/debian/source/format \
	packaging/easybuild/Sluice-0.1.0-foss-2023b.eb packaging/modulefile.lua packaging/sbom \
	packaging/sluice.rpmlintrc packaging/sluice.spec packaging/spack/package.py
EXTRA_DIST += $(packaging_files)

completions = sluice-bench sluice-info sluice-plot sluice-top sluice-train
modulefiles = $(DESTDIR)$(datadir)/sluice/modulefiles/sluice
install-packaging:
	$(AM_V_at)$(MKDIR_P) "$(DESTDIR)$(completiondir)" "$(modulefiles)"
	$(AM_V_at)for program in $(completions); do \
		$(INSTALL_DATA) $(srcdir)/packaging/completion "$(DESTDIR)$(completiondir)/$$program" || exit 1; done
	$(AM_V_at)lib="$(PC_LIBDIR)"; sed "s|@LIB@|$${lib#$(prefix)/}|" $(srcdir)/packaging/modulefile.lua \
		>"$(modulefiles)/$(VERSION).lua" && chmod 644 "$(modulefiles)/$(VERSION).lua"
uninstall-packaging:
	$(AM_V_at)for program in $(completions); do rm -f "$(DESTDIR)$(completiondir)/$$program"; done
	$(AM_V_at)rm -f "$(modulefiles)/$(VERSION).lua"

# Debian's and RHEL's packages, built from what "make dist" packs, in the folder PACKAGES. DEB_FLAGS goes to
# dpkg-buildpackage and RPM_FLAGS to rpmbuild: RPM_FLAGS=--nodeps builds on Debian. DEB_PROFILES are build profiles,
# separated by commas: without pkg.sluice.nocuda, nvcc must be installed. Each build uses the same folder
# name, and times of SOURCE_DATE_EPOCH or the changelog, so equal sources give equal bits.
PACKAGES = dist
DEB_FLAGS =
DEB_PROFILES = pkg.sluice.nocuda
RPM_FLAGS =
packed = packaging/packed/sluice-$(VERSION)
deb: pack-tree
	$(AM_V_at)cp -R $(packed)/packaging/debian $(packed)/
	cd $(packed) && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL \
		dpkg-buildpackage -us -uc -b -P$(DEB_PROFILES) $(DEB_FLAGS)
	$(AM_V_at)$(MKDIR_P) $(PACKAGES) && mv packaging/packed/*.deb packaging/packed/*.changes packaging/packed/*.buildinfo $(PACKAGES)/
	$(AM_V_at)chmod -R u+w packaging/packed && rm -rf packaging/packed
rpm: pack-tree
	$(AM_V_at)cd packaging/packed && tar --sort=name --owner=0 --group=0 --numeric-owner \
		--mtime=@$${SOURCE_DATE_EPOCH:-1795176000} -cJf sluice-$(VERSION).tar.xz sluice-$(VERSION)
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL rpmbuild -bb $(RPM_FLAGS) --define "_topdir $(abs_builddir)/packaging/packed/rpm" \
		--define "_sourcedir $(abs_builddir)/packaging/packed" --define "sluice_version $(VERSION)" \
		$(packed)/packaging/sluice.spec
	$(AM_V_at)$(MKDIR_P) $(PACKAGES) && mv packaging/packed/rpm/RPMS/*/*.rpm $(PACKAGES)/
	$(AM_V_at)chmod -R u+w packaging/packed && rm -rf packaging/packed
pack-tree:
	$(AM_V_at)rm -rf packaging/packed && $(MKDIR_P) packaging/packed
	$(AM_V_GEN)$(MAKE) $(AM_MAKEFLAGS) -s distdir distdir=$(packed)
	$(AM_V_at)chmod -R u+w $(packed)
# The list of what the source consists of and needs, in SPDX's form.
sbom:
	$(AM_V_GEN)$(MKDIR_P) $(PACKAGES) && $(PACKER) $(srcdir)/packaging/sbom $(srcdir) >$(PACKAGES)/sluice-$(VERSION).spdx.json
.PHONY: deb rpm sbom pack-tree install-packaging uninstall-packaging
