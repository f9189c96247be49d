package page

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"strings"
)

// asset is a file that the pages use. Its address has its version, so that browsers keep it.
type asset struct {
	kind, text, version string
}

func newAsset(kind, text string) asset {
	sum := sha256.Sum256([]byte(text))
	return asset{kind, text, hex.EncodeToString(sum[:6])}
}

// The names of the assets.
const (
	stylePath    = "style.css"
	scriptPath   = "page.js"
	licensesPath = "licenses.txt"
	logoPath     = "logo"
)

// assets are the files of the program. Config.Logo is one more.
var assets = map[string]asset{
	stylePath:    newAsset("text/css; charset=utf-8", darkAlone(embedded("bootstrap/bootstrap.min.css"))+embedded(stylePath)),
	scriptPath:   newAsset("text/javascript; charset=utf-8", embedded(scriptPath)),
	licensesPath: newAsset("text/plain; charset=utf-8", "Bootstrap 5.3.8\n\n"+embedded("bootstrap/LICENSE")+"\n\nBootstrap Icons 1.13.1\n\n"+embedded("bootstrap/LICENSE-icons")),
}

func embedded(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // a file of the program
	}
	return string(text)
}

// darkRule matches the rules of Bootstrap's dark theme.
var darkRule = regexp.MustCompile(`\}(\[data-bs-theme=dark\][^{}]*\{[^{}]*\})`)

// darkAlone adds the rules of the dark theme for browsers that prefer it and have no script.
func darkAlone(style string) string {
	const selected, preferred = "[data-bs-theme=dark]", ":root:not([data-bs-theme])"
	all := strings.Builder{}
	for _, rule := range darkRule.FindAllStringSubmatch(style, -1) {
		all.WriteString(strings.Replace(rule[1], selected, preferred, 1))
	}
	return style + "@media (prefers-color-scheme: dark){" + all.String() + "}\n"
}

// isAsset reports whether a page is a file that all pages use.
func isAsset(name string) bool { return assets[name].kind != "" || name == logoPath }

// assetOf returns an asset; the zero value for none.
func (p *Pages) assetOf(name string) asset {
	if name == logoPath {
		return p.logo
	}
	return assets[name]
}

// Asset is the address of an asset, empty if there is none.
func (f frame) Asset(name string) string {
	a := f.pages.assetOf(name)
	if a.kind == "" {
		return ""
	}
	return link(name, map[string]string{"v": a.version})
}

// serveAsset answers with an asset. A browser keeps it for a year if it asks for this version.
func (p *Pages) serveAsset(w http.ResponseWriter, r request) error {
	a := p.assetOf(nameOf(r.Request))
	if a.kind == "" {
		return errAbsent
	}
	if r.URL.Query().Get("v") == a.version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("Content-Type", a.kind)
	_, _ = w.Write([]byte(a.text)) // the client has closed the connection
	return nil
}
