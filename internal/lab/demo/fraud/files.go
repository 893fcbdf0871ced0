package fraud

import "embed"

// Files holds pipeline.yaml and its model.
//
//go:embed pipeline.yaml fraud.ubj
var Files embed.FS
