// Package validate has a test that holds the manifests of the folder above to the
// published schemas. It is a module of its own, so that gorun does not depend on them.
package validate
