// A real OpenID Connect provider on loopback, with the login forms of oidc-provider: any name logs in. Its arguments are
// the redirect URI and the secret of the client "rt". It prints its issuer, and ends with its standard input.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [redirect, secret, modules] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(createRequire(join(modules, 'x.js')).resolve('oidc-provider')));
const server = createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
const client = (id) => ({ client_id: id, client_secret: secret, redirect_uris: [redirect] });
const provider = new Provider(issuer, {
  clients: [client('rt'), client('other')],
  claims: { openid: ['sub'], profile: ['preferred_username'] },
  conformIdTokenClaims: false, // the claims are in the ID token
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, preferred_username: id }) }),
});
server.on('request', provider.callback());
console.log(issuer);
process.stdin.on('end', () => process.exit()).resume();
