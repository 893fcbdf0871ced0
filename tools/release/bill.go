package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
)

// bill writes the software bill of materials of a platform's programs, in
// CycloneDX. It lists the modules of the licence notices, and is compared with
// what the linker wrote into the programs: both must name the same modules.
func (r *release) bill(p platform, programs []program, linked components) error {
	if err := agree(programs, linked); err != nil {
		return err
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.time.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: "afterbay", Type: cyclonedx.ComponentTypeApplication, Name: "afterbay", Version: r.version,
			PackageURL: packageURL("github.com/afterbay/afterbay", r.version), Licenses: licences("Apache-2.0"),
		},
	}
	var list []cyclonedx.Component
	var refs []string
	for _, c := range linked {
		ref := packageURL(c.path, c.version)
		refs = append(refs, ref)
		list = append(list, cyclonedx.Component{
			BOMRef: ref, Type: cyclonedx.ComponentTypeLibrary, Name: c.path, Version: c.version, PackageURL: ref, Licenses: licences(c.licences()...),
		})
	}
	for _, each := range programs {
		sum, _, err := sumOf(each.path)
		if err != nil {
			return err
		}
		list = append(list, cyclonedx.Component{
			BOMRef: each.name + "-" + p.String(), Type: cyclonedx.ComponentTypeFile, Name: each.name,
			Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sum)}},
		})
	}
	bom.Components = &list
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: "afterbay", Dependencies: &refs}}
	id := sha256.Sum256([]byte(strings.Join(refs, "\n") + r.commit + r.version + p.String()))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8: made from a digest, so that it repeats
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	f, err := os.Create(r.name(p.String() + ".cdx.json"))
	if err != nil {
		return err
	}
	defer f.Close()
	return cyclonedx.NewBOMEncoder(f, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// packageURL names a module of Go.
func packageURL(path, version string) string { return "pkg:golang/" + path + "@" + version }

// licences lists identifiers of SPDX.
func licences(ids ...string) *cyclonedx.Licenses {
	var list cyclonedx.Licenses
	for _, id := range ids {
		list = append(list, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &list
}

// licences returns the licences that the files of a module state.
func (c component) licences() []string {
	ids := map[string]bool{}
	for _, text := range c.texts {
		for _, match := range licensecheck.Scan([]byte(text)).Match {
			if !match.IsURL {
				ids[match.ID] = true
			}
		}
	}
	return sortedKeys(ids)
}

// agree compares the modules that programs name with the modules of the notices.
func agree(programs []program, linked components) error {
	for _, each := range programs {
		info, err := buildinfo.ReadFile(each.path)
		if err != nil {
			return err
		}
		for _, module := range info.Deps {
			if !slices.ContainsFunc(linked, func(c component) bool { return c.path == module.Path && c.version == module.Version }) {
				return fmt.Errorf("%s of %s holds %s %s, which is not in the notices", each.name, each.platform, module.Path, module.Version)
			}
		}
	}
	return nil
}
